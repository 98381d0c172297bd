"""The scripted model passes the kit of the model port."""

from __future__ import annotations

import pytest

from pilotage.agent.ports.model import IAgentModel
from pilotage.testing import ScriptedModel, calls, fails, says
from pilotage.testing.conformance import ModelConformance


class TestScriptedModel(ModelConformance):
    @pytest.fixture
    def talking_model(self) -> IAgentModel:
        return ScriptedModel([says("Good day, Countess.")])

    @pytest.fixture
    def calling_model(self) -> IAgentModel:
        return ScriptedModel([calls("lookup", key="ports")])

    @pytest.fixture
    def answering_model(self) -> IAgentModel:
        return ScriptedModel([says(output={"city": "Oslo", "days": 3})])

    @pytest.fixture
    def failing_model(self) -> IAgentModel:
        return ScriptedModel([fails("overloaded", retryable=True)])

    @pytest.fixture
    def breaking_model(self) -> IAgentModel:
        return ScriptedModel([fails("connection reset", after="Good day")])
