"""Adapters: what implements the ports of the core with a technology, or drives it. Each needs its extra."""
