"""What the commands do. Runtime and adapters are imported here, when a command is carried out."""
