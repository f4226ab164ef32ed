"""Ingestion: a source's snapshot, its difference, a plan, then a job; provenance after it. Hooks around a job do it."""
