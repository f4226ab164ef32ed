"""The documentation, installed as `ktxkit.doc_pages` so that `git ktx help PAGE` shows it."""
