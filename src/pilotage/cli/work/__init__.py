"""What the commands do. The runtime and the adapters are imported in here, and only when a command is carried out."""
