"""Control calls: decisions that a model takes by calling a tool without a function.

They are data in a recorded reply; the architecture reads and answers them. An exit is a control call that ends the
run: its name and arguments become the output.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.architecture import IScopedTools, ToolCallOutcome
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, object_or_empty
from pilotage.values import value

Answering: TypeAlias = Callable[[Sequence[ModelToolCall]], Awaitable[Sequence[ToolCallOutcome]]]
"""Gives the outcomes of the control calls of one reply, in their order."""


class ControlTools(IScopedTools):
    """Tools, with control calls beside them."""

    def __init__(self, tools: IScopedTools, controls: Sequence[ModelToolSpec], answer: Answering) -> None:
        self._tools = tools
        self._names = {control.name for control in controls}
        self._answer = answer
        plain = tools.calling or ToolCallingSpec(())
        self._calling = replace(plain, tools=[*plain.tools, *controls]) if controls else tools.calling

    @property
    def calling(self) -> ToolCallingSpec | None:
        return self._calling

    async def call(self, call: ModelToolCall) -> ToolCallOutcome:
        if call.name not in self._names:
            return await self._tools.call(call)
        return (await self._answer([call]))[0]

    async def call_all(
        self, calls: Sequence[ModelToolCall], *, limit: int | None = None
    ) -> Sequence[ToolCallOutcome]:
        """The plain calls first: what ends the loop must not leave them undone."""
        plain = [call for call in calls if call.name not in self._names]
        controls = [call for call in calls if call.name in self._names]
        done = iter(await self._tools.call_all(plain, limit=limit) if plain else ())
        answered = iter(await self._answer(controls) if controls else ())
        return [next(answered) if call.name in self._names else next(done) for call in calls]


class NoTools(IScopedTools):
    """Nothing on offer, whatever there was."""

    def __init__(self, _: IScopedTools) -> None:
        pass

    @property
    def calling(self) -> ToolCallingSpec | None:
        return None

    async def call(self, call: ModelToolCall) -> ToolCallOutcome:
        return ToolCallOutcome(
            call, error=f"there is no tool {call.name!r}: none is on offer. Answer in words."
        )

    async def call_all(
        self, calls: Sequence[ModelToolCall], *, limit: int | None = None
    ) -> Sequence[ToolCallOutcome]:
        return [await self.call(call) for call in calls]


def control_call(name: str, arguments: object, purpose: str, **choices: Sequence[str]) -> ModelToolSpec:
    """A control call as the model sees it: its arguments are those of a type, some of them one of these choices."""
    spec = limited(StructuredOutputSpec.from_type(arguments), choices)
    return ModelToolSpec(name, spec.constraint, purpose)


def limited(spec: StructuredOutputSpec, choices: Mapping[str, Sequence[str]]) -> StructuredOutputSpec:
    """The spec with text members that must be one of some choices, lists of texts likewise.

    Only the schema says so, for servers that enforce it; the reader of the answer checks it.
    """
    schema = dict(spec.constraint.schema)
    members = dict(object_or_empty(schema.get("properties")))
    for name, allowed in choices.items():
        members[name] = _one_of(as_object(members[name]), list(allowed))
    schema["properties"] = members
    return replace(spec, constraint=replace(spec.constraint, schema=schema))


def _one_of(member: JsonObject, allowed: list[str]) -> JsonObject:
    if member.get("type") == "array":
        return {**member, "items": {"type": "string", "enum": allowed}}
    return {**member, "enum": allowed}


# No field of a type can have this name, so no answer with a type looks like an exit.
_TAKEN = "pilotage.exit"


@value
class Exit:
    """The way out that a run took: the name of the control call, and its arguments."""

    name: str
    arguments: JsonObject

    @property
    def output(self) -> JsonObject:
        """The exit as the output of a run."""
        return {_TAKEN: {"name": self.name, "arguments": self.arguments}}

    @classmethod
    def taken_in(cls, output: JsonValue) -> Exit | None:
        """The exit that an output stands for; None for an answer."""
        taken = output.get(_TAKEN) if isinstance(output, Mapping) else None
        if not isinstance(taken, Mapping):
            return None
        return cls(str(taken["name"]), as_object(taken["arguments"]))
