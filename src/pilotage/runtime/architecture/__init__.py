"""The interface of a run to architectures."""
