"""The one door to the world, and how tools, models and steps come to it by themselves."""
