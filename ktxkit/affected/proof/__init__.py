"""The proof of a selection: mutants that the tests left out must not see."""
