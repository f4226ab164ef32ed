"""Beneath every wing: errors, contracts and the documents they hold, text, files, locks, clocks, processes."""
