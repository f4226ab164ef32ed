"""The runtime map: kept, read, audited."""
