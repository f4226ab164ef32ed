"""What every wing stands on: errors, contracts, text, files, locks, clocks and processes."""
