"""Declarations of the commands: arguments, options, help. The handlers do the work."""
