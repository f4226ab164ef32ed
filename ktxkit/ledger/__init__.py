"""The ledger of test runs: recorder, events, answers, importers."""

VARIABLE = "KTX_LEDGER"  # whether runs are recorded, or where
OFF = ("off", "0", "no", "false")
ON = ("on", "1", "yes", "true")
