"""The ledger's decisions: what the recorded facts of jobs and test runs allow to be said."""
