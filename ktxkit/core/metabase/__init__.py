"""Metabase's documents as facts: cards, queries, tables."""
