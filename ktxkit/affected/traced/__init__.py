"""The tracer: loaded without the rest of ktxkit, in any interpreter."""
