"""The mutation proof of a selection of tests: what it leaves out must not be what would have noticed."""
