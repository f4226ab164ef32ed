"""What is decided here is pure: no clock, file, process or environment."""
