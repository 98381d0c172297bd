"""The one way to the world: effects, their admission and their outcomes."""
