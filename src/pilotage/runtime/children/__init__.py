"""Child runs and delegation."""
