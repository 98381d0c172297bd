"""What is written down of a run, how it is read back, and who owns it."""
