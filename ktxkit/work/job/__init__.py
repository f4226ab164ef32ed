"""A whole job, from its file to its landing."""
