"""Claims about test runs: found in texts, and judged."""
