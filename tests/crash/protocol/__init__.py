"""The ownership and intent protocol as a small model, explored exhaustively, and held against the real ledger."""
