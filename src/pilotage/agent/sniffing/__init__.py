"""What the bytes of media are, by their headers; pictures and sounds are never decoded. Pure."""
