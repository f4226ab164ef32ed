"""What a runtime trace says, decided."""
