"""Decisions. Pure: no clock, no file, no process, no environment."""
