"""A process that works for hours: it must not grow, and not become slower; `make soak` runs it."""
