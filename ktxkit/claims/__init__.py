"""What a text claims of test runs, held against the ledger: the message gate `claims`."""
