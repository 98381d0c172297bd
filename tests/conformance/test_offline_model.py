"""The offline model passes the kit of the model port."""

from __future__ import annotations

import pytest

from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.ids import SystemClock
from pilotage.models import OfflineModel
from pilotage.testing.conformance import ModelConformance


class FailingClock(SystemClock):
    """Goes for a while, and then breaks: all that can fail under a model without a server."""

    def __init__(self, *, after: int) -> None:
        self._left = after

    async def sleep(self, seconds: float) -> None:
        if not self._left:
            raise OSError("the clock stopped")
        self._left -= 1


class TestOfflineModel(ModelConformance):
    @pytest.fixture
    def talking_model(self) -> IAgentModel:
        return OfflineModel({"Greet Ada.": "Good day, Countess."})

    @pytest.fixture
    def calling_model(self) -> IAgentModel:
        return OfflineModel()

    @pytest.fixture
    def answering_model(self) -> IAgentModel:
        return OfflineModel({"Plan a journey.": {"city": "Oslo", "days": 3}})

    @pytest.fixture
    def failing_model(self) -> IAgentModel:
        return OfflineModel(capability=ModelCapability("offline", context_tokens=1))

    @pytest.fixture
    def breaking_model(self) -> IAgentModel:
        answers = {"Greet Ada": "Good day"}
        silent = ModelCapability("offline")
        return OfflineModel(answers, tokens_per_second=1000, clock=FailingClock(after=2), capability=silent)
