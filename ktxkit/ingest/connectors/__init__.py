"""Connectors: where raw files come from, and what they mean. Found by entry point group `ktxkit.connectors`."""
