"""The exits that a run was given by its parent, on offer beside its tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import cast

from pilotage.agent.control_tools import ControlTools
from pilotage.agent.exits import Exit
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.architecture import Architecture, Dependencies, ToolCallOutcome
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.jsonvalue import JsonObject, canonical_json
from pilotage.schema.from_json import core_of_json
from pilotage.schema.validation import MisfitsError, Validate, compile_validator

_ONE_IS_ENOUGH = "not done: the reply leaves by another way already."


def with_exits(
    deps: Dependencies, architecture: Architecture, exits: Sequence[ModelToolSpec]
) -> Dependencies:
    """The dependencies of a loop with these exits on offer; the first that a reply takes ends the loop.

    A loop that works in parts has no place for them: a part that ends is not the end. One that has says `takes_exits`.
    """
    if not exits or not getattr(architecture, "takes_exits", False):
        return deps
    by_name = {each.name: each for each in exits}

    async def leave(calls: Sequence[ModelToolCall]) -> list[ToolCallOutcome]:
        outcomes: list[ToolCallOutcome] = []
        for call in calls:
            is_left = any(outcome.ends for outcome in outcomes)
            refusal = _ONE_IS_ENOUGH if is_left else _misfits(by_name[call.name], call)
            left = Exit(call.name, call.arguments).output
            outcomes.append(
                ToolCallOutcome(call, error=refusal) if refusal else ToolCallOutcome(call, left, ends=True)
            )
        return outcomes

    return deps.with_tools(partial(ControlTools, controls=exits, answer=leave))


def _misfits(spec: ModelToolSpec, call: ModelToolCall) -> str:
    """What is wrong with the arguments, in words for the model; empty where nothing is."""
    try:
        _validator(canonical_json(spec.parameters.schema))(call.arguments)
    except MisfitsError as error:
        return " ".join(f"{misfit.path or 'the arguments'}: {misfit.words}." for misfit in error.misfits)
    return ""


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validate:
    return compile_validator(core_of_json(cast(JsonObject, json.loads(schema))))
