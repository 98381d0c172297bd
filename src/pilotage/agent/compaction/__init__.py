"""Making a context smaller: the rules every compaction keeps, and what a strategy answers. Pure."""
