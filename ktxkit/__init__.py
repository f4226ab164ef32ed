"""ktxkit: many workers change one git repository at once; only what passes every gate lands, with proof."""

__version__ = "0.1.0"
