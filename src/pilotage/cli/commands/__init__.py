"""The commands as people write them: names, arguments, options, help; what they do is imported later."""
