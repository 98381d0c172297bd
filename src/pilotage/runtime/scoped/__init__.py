"""What an architecture may use: model, tools, branches, loops and children, bound to a run."""
