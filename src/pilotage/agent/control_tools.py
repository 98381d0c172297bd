"""Control calls: decisions that a model takes by calling a tool without a function.

They are data in a recorded reply; the architecture reads and answers them. An exit is a control call that ends the
run: its name and arguments become the output.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pilotage.agent.messages import ModelMessage, ModelMessageRole, ModelToolCall
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec, ToolCallingSpec
from pilotage.agent.ports.architecture import IScopedTools, ToolCallOutcome
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, list_or_empty, object_or_empty
from pilotage.values import value

Answering: TypeAlias = Callable[[Sequence[ModelToolCall]], Awaitable[Sequence[ToolCallOutcome]]]
"""Gives the outcomes of the control calls of one reply, in their order."""


def _never() -> bool:
    return False


class ControlTools(IScopedTools):
    """Tools, with control calls beside them; `is_withdrawn` says when the control calls are on offer no longer."""

    def __init__(
        self,
        tools: IScopedTools,
        controls: Sequence[ModelToolSpec],
        answer: Answering,
        is_withdrawn: Callable[[], bool] = _never,
    ) -> None:
        self._tools = tools
        self._is_withdrawn = is_withdrawn
        self._names = {control.name for control in controls}
        self._answer = answer
        plain = tools.calling or ToolCallingSpec(())
        self._calling = replace(plain, tools=[*plain.tools, *controls]) if controls else tools.calling

    @property
    def calling(self) -> ToolCallingSpec | None:
        return self._tools.calling if self._is_withdrawn() else self._calling

    async def call(self, call: ModelToolCall) -> ToolCallOutcome:
        if call.name not in self._names:
            return await self._tools.call(call)
        return (await self._answer([call]))[0]

    async def call_all(
        self, calls: Sequence[ModelToolCall], *, limit: int | None = None
    ) -> Sequence[ToolCallOutcome]:
        """Return the plain calls first: what ends the loop must not leave them undone."""
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
    """Return a control call as the model sees it: arguments of a type, some of them limited to choices."""
    spec = limited(StructuredOutputSpec.from_type(arguments), choices)
    return ModelToolSpec(name, spec.constraint, purpose)


def limited(spec: StructuredOutputSpec, choices: Mapping[str, Sequence[str]]) -> StructuredOutputSpec:
    """Return the spec with text members that must be one of some choices, lists of texts likewise.

    Only the schema limits them, for servers that enforce it; the reader of the answer checks it.
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
    """The way out that a run took: the name of the control call, its arguments, and the words of the same reply.

    `history` is everything that was said and found in the run before, where the exit asks for it.
    """

    name: str
    arguments: JsonObject
    words: str = ""
    history: Sequence[str] | None = None

    @property
    def output(self) -> JsonObject:
        """The exit as the output of a run."""
        taken: dict[str, JsonValue] = {"name": self.name, "arguments": self.arguments}
        if self.words:
            taken["words"] = self.words
        if self.history is not None:
            taken["history"] = list(self.history)
        return {_TAKEN: taken}

    @classmethod
    def taken_in(cls, output: JsonValue) -> Exit | None:
        """Return the exit in an output; None for an answer."""
        taken = output.get(_TAKEN) if isinstance(output, Mapping) else None
        if not isinstance(taken, Mapping):
            return None
        history = list_or_empty(taken["history"]) if "history" in taken else None
        return cls(
            str(taken["name"]),
            as_object(taken["arguments"]),
            str(taken.get("words", "")),
            None if history is None else [str(each) for each in history],
        )


_SPEAKERS = {ModelMessageRole.ASSISTANT: "said", ModelMessageRole.TOOL: "found"}


def with_last_words(output: JsonValue, text: str, messages: Sequence[ModelMessage]) -> JsonValue:
    """Return the output of a run; an exit gets the text of the reply that took it, and the history it asks for."""
    left = Exit.taken_in(output)
    if left is None:
        return output
    turns = [
        f"{_SPEAKERS[each.role]}: {each.text}"
        for each in messages
        if each.role in _SPEAKERS and each.text.strip()
    ]
    return replace(left, words=text.strip(), history=None if left.history is None else turns).output


_REFUSED, _HISTORY = "refused_arguments", "passes_history"


def exit_call(
    call: ModelToolSpec, *, refused: Sequence[JsonObject] = (), passes_history: bool = False
) -> ModelToolSpec:
    """Return a control call as an exit: one with `refused` arguments is answered with an error."""
    facts: dict[str, JsonValue] = {_REFUSED: list(refused)} if refused else {}
    if passes_history:
        facts[_HISTORY] = True
    return replace(call, metadata=facts) if facts else call


def passes_history(exit_: ModelToolSpec) -> bool:
    """Return whether an exit carries everything that was said and found before it."""
    return exit_.metadata.get(_HISTORY) is True


def refuses(exit_: ModelToolSpec, arguments: JsonObject) -> bool:
    """Return whether an exit refuses a call with these arguments."""
    return arguments in list_or_empty(exit_.metadata.get(_REFUSED))
