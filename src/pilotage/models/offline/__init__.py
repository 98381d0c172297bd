"""The rules of the offline model: grammar, choosing a tool, filling it in, wording. Pure."""
