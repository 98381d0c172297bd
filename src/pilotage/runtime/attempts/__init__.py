"""One attempt at a run: the program from the top, and every way in which it can end."""
