"""The rules of the offline model: grammar, choice of a tool, its arguments, texts of replies. Pure."""
