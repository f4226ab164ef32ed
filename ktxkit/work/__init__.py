"""Units of work: open, collect, integrate, verify, land, recover; whole jobs."""
