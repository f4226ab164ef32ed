"""Metabase's documents as facts."""
