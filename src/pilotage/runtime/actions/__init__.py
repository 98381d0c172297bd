"""What a run does, as values: actions, their place in the program, what ends an attempt."""
