"""dbt's documents as facts: models, tests, semantic models."""
