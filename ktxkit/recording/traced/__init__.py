"""What is loaded into every Python of a traced run before any code of its own: the standard library alone."""
