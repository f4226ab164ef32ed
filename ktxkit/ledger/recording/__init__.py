"""The recorder of pytest runs."""
