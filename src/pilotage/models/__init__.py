"""Models that need no adapter: the offline model, and wrappers that change one thing about another model."""

from pilotage.models.offline_model import OfflineModel

__all__ = ["OfflineModel"]
