"""What an architecture may use of a run."""
