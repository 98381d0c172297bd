"""Exposure of content: trust labels, redaction, exposure modes."""
