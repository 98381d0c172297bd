"""Real processes over real databases, killed at any moment; `make torture` runs it and prints the numbers."""
