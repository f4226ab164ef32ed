"""Workers that come with ingestion: pages by rule, evictions, reconciliation. Each is a command that a unit runs.

They keep to the protocol of every worker (docs/commands/ingest-run.md): the unit's document is at $KTX_UNIT_FILE, the
raw files below $KTX_RAW_ROOT, the index of pages and sources at $KTX_INDEX; $KTX_RESULT takes an account.
"""
