"""Small wrong changes of Python and data, to see whether tests notice them. Pure."""
