"""Streaming redaction: sensitive text is replaced before any of it leaves, however it is cut into chunks."""
