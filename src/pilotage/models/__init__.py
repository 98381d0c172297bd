"""Models that need no adapter: the offline model, and wrappers that change one thing about another model."""

from pilotage.models.fallback import Condition, FallbackCondition, FallbackModel
from pilotage.models.named import named_model
from pilotage.models.offline_model import OfflineModel
from pilotage.models.prices import ModelPrice, PriceList
from pilotage.models.rate_limit import RateLimitedModel

__all__ = [
    "Condition",
    "FallbackCondition",
    "FallbackModel",
    "ModelPrice",
    "OfflineModel",
    "PriceList",
    "RateLimitedModel",
    "named_model",
]
