"""Agents that are ordinary application components: durable, typed, streaming, behind ports."""
