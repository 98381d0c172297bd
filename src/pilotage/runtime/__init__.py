"""Durable execution: runs that survive their process, with nothing lost and nothing done twice."""
