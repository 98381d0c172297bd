"""Media: what is taken in, where its bytes are, what becomes of them."""
