"""Loop strategies: how an agent without an `execute()` of its own goes from the question to the answer."""

from pilotage.architectures.moves import StopReason
from pilotage.architectures.react import React

__all__ = ["React", "StopReason"]
