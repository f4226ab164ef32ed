"""dbt's manifest as facts."""
