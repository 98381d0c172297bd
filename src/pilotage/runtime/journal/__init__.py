"""The journal of a run: rows, commits, leases, replay, recovery."""
