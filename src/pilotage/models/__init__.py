"""Models that need no adapter: the offline model, and wrappers that change one thing about another model."""

from pilotage.models.fallback import Condition, FallbackCondition, FallbackModel
from pilotage.models.named import named_model
from pilotage.models.offline_model import OfflineModel
from pilotage.models.rate_limit import RateLimitedModel

__all__ = [
    "Condition",
    "FallbackCondition",
    "FallbackModel",
    "OfflineModel",
    "RateLimitedModel",
    "named_model",
]
