"""Affected tests, decided from facts alone: reading a file, comparing two readings, following uses back to tests."""
