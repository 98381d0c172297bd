"""A kit of programs as people write them, each paused at every place and killed at every commit."""
