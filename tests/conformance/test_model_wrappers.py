"""Wrappers around models pass the kit of the model port, as the models inside them do."""

from __future__ import annotations

import pytest

from pilotage.agent.ports.model import IAgentModel
from pilotage.models import FallbackModel, RateLimitedModel
from pilotage.testing import ScriptedModel, VirtualClock, calls, fails, says
from pilotage.testing.conformance import ModelConformance
from pilotage.testing.script import ScriptEntry


class WrapperConformance(ModelConformance):
    def wrapped(self, turn: ScriptEntry) -> IAgentModel:
        raise NotImplementedError

    @pytest.fixture
    def talking_model(self) -> IAgentModel:
        return self.wrapped(says("Good day, Countess."))

    @pytest.fixture
    def calling_model(self) -> IAgentModel:
        return self.wrapped(calls("lookup", key="ports"))

    @pytest.fixture
    def answering_model(self) -> IAgentModel:
        return self.wrapped(says(output={"city": "Oslo", "days": 3}))

    @pytest.fixture
    def failing_model(self) -> IAgentModel:
        return self.wrapped(fails("overloaded", retryable=True))

    @pytest.fixture
    def breaking_model(self) -> IAgentModel:
        return self.wrapped(fails("connection reset", after="Good day"))


class TestFallbackModelWhoseFirstAnswers(WrapperConformance):
    def wrapped(self, turn: ScriptEntry) -> IAgentModel:
        return FallbackModel([ScriptedModel([turn]), ScriptedModel([fails("never asked")])])


class TestFallbackModelWhoseSecondAnswers(WrapperConformance):
    def wrapped(self, turn: ScriptEntry) -> IAgentModel:
        return FallbackModel([ScriptedModel([fails("overloaded", retryable=True)]), ScriptedModel([turn])])


class TestRateLimitedModel(WrapperConformance):
    def wrapped(self, turn: ScriptEntry) -> IAgentModel:
        return RateLimitedModel(
            ScriptedModel([turn]), max_concurrent=1, tokens_per_minute=100_000, clock=VirtualClock()
        )
