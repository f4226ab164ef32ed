"""The pages of the formats that people write, installed as `ktxkit.format_pages` so that `git ktx help` shows them."""
