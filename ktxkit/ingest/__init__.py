"""From a source of knowledge to landed pages and sources."""
