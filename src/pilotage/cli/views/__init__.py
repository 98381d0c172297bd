"""Runs, questions and findings as lines of text and as JSON. Everything in here is pure."""
