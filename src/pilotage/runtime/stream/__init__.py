"""What a run tells: numbered, kept, redacted, and passed on to whoever listens."""
