"""The ledger of test runs: recorder, events, answers, claims, importers."""
