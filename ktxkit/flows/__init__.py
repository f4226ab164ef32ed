"""What two commands need: decisions of `core` joined with `effects`. A flow prints nothing and parses no arguments."""
