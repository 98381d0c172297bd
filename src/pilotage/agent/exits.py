"""Exits: control calls that end a run before its answer. What was called, with what, is its output then."""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.jsonvalue import JsonObject, JsonValue, as_object
from pilotage.values import value

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
