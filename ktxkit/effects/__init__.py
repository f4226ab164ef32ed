"""Effects: git, the store, journals, the clock, locks, processes, scans. They do; they never decide."""
