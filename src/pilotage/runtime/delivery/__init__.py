"""Delivering facts, and taking up runs without an owner."""
