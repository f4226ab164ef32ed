"""What a text claims of test runs, and whether the ledger bears it out. A false accusation is the worse fault."""
