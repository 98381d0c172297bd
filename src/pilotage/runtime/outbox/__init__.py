"""Facts about runs on their way to those who want to hear of them."""
