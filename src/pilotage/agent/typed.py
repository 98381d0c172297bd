"""The types of an agent's input and output, read from its `execute` by type checkers.

An agent with `execute(self, command: C) -> ...` takes a `C`, a JSON object or a `RunAgentInput`; its result has the
type that `execute` declares. An agent without `execute` takes text, and its output is not known to type checkers.

A type checker cannot be told that a class has no `execute`: the overload for such agents takes every class, and with it
a text. So a text for an `execute` of another type is caught by an overload of its own, which gives `TextDoesNotFit`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from typing import Any, Generic, Never, Protocol, TypeAlias, TypeVar

from pilotage.agent.run_values import RunAgentInput, RunResult
from pilotage.agent.yields import AgentYield

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")
Out_co = TypeVar("Out_co", covariant=True)

AsJson: TypeAlias = Mapping[str, object] | RunAgentInput
"""What every agent takes besides its own type: the parameters as an object, or the input of a runner."""
AsText: TypeAlias = str | Mapping[str, object] | RunAgentInput | None

Asked: TypeAlias = (
    AsyncGenerator[AgentYield[Out_co], None]
    | Generator[AgentYield[Out_co], None, None]
    | Coroutine[Any, Any, Out_co]
)
"""What an `execute` that streams or is awaited gives back."""


class Takes(Protocol[In_contra, Out_co]):
    """An agent whose `execute` takes one value, and streams or is awaited."""

    def execute(self, given: In_contra, /) -> Asked[Out_co]: ...


class TakesNothing(Protocol[Out_co]):
    """An agent whose `execute` takes nothing, and streams or is awaited."""

    def execute(self) -> Asked[Out_co]: ...


class Computes(Protocol[In_contra, Out_co]):
    """An agent whose `execute` takes one value and returns."""

    def execute(self, given: In_contra, /) -> Out_co: ...


class TakesOther(Protocol):
    """An agent whose `execute` takes one value, of whatever type."""

    def execute(self, given: Never, /) -> object: ...


class ComputesAlone(Protocol[Out_co]):
    """An agent whose `execute` takes nothing and returns."""

    def execute(self) -> Out_co: ...


class TextDoesNotFit:
    """What type checkers see where a text is given to an agent whose `execute` takes another type.

    It has no members, so every use of the run or its result is an error for them. When it is made, such a call raises
    `AgentDefinitionError`.
    """


class TypedResult(RunResult, Generic[Out]):
    """A `RunResult` as type checkers see it where they know the agent: `output` has the declared type.

    A run without an answer has None there, as every `RunResult`; its status says so.
    """

    output: Out
