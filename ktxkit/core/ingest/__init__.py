"""Ingestion as decisions: difference, plan, provenance. Pure."""
