"""Definitions that every run would fail with are refused when the application starts, word for word."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated

import pytest

from pilotage import Agent, Application, SecretField, agent_tool
from pilotage.agent import ISecrets, RunContext
from pilotage.errors import AgentBootstrapError
from pilotage.runtime.plugin import initialize
from pilotage.safety import SecretRef
from pilotage.testing import MemoryStore, ScriptedModel

WORDS = "a plain class. Write a dataclass, a TypedDict or a pydantic model."


class Plain:
    """A class without fields that anything could read."""


class Shape(ABC):
    """What an agent computes; the classes below it are dataclasses."""

    @abstractmethod
    def area(self) -> int: ...


@Agent(durable=True, output=Plain)
class Answers:
    """Answer."""


@Agent(durable=True)
class Takes:
    async def execute(self, thing: Plain) -> str:
        return "done"


@Agent
class TakesSome:
    async def execute(self, things: Sequence[Plain]) -> str:
        return "done"


@Agent
class Returns:
    async def execute(self, name: str) -> Plain:
        return Plain()


@Agent
class Computes:
    async def execute(self, name: str) -> Shape:
        raise NotImplementedError


@Agent(durable=True)
class Calls:
    """Call."""

    @agent_tool
    async def call(self, number: str, key: Annotated[str, SecretField("phone")]) -> str:
        """Call a number."""
        return number


class Vault(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return "secret"


def started(*pods: object) -> None:
    app = Application("shop").add(*pods, ScriptedModel([]), *MemoryStore().ports)
    initialize(app)
    with app:
        pass


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (Answers, f"Answers: output_type is Plain, {WORDS}"),
        (Takes, f"Takes: parameter 'thing' of execute() is Plain, {WORDS}"),
        (TakesSome, f"TakesSome: parameter 'things' of execute() is Plain, {WORDS}"),
        (Returns, f"Returns: the result of execute() is Plain, {WORDS}"),
        (
            Calls,
            "Calls: its tool 'call' needs secrets ('key'), and nothing provides ISecrets.\n"
            "     Bind one: app.bind(ISecrets, ...).",
        ),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_the_application_does_not_start(agent: type, words: str) -> None:
    with pytest.raises(AgentBootstrapError) as caught:
        started(agent)
    assert str(caught.value) == f"1 problem in application 'shop':\n  1. {words}"


def test_secrets_that_are_provided_and_results_of_an_abstract_class_are_no_problem() -> None:
    started(Calls, Vault())
    started(Computes)
