"""What may be shown to whom: trust labels, redaction, exposure modes."""
