"""Many tools: a model gets two tools instead, one that searches the others and one that calls them by name.

The tools of a request stay the same whatever is searched and called, so that servers can cache them: definitions are in
the results of searches. A call by name is the call of that tool: its checks, permissions, approval and record are those
of a tool that is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import JsonSchemaConstraint, ModelToolSpec, ToolCallingSpec, ToolFunction
from pilotage.agent.tools.declare import ToolOptions
from pilotage.agent.tools.described import described, described_tool
from pilotage.agent.tools.metadata import Idempotency, ToolApprovalRequirement, ToolEffects
from pilotage.agent.tools.schema import tool_interface
from pilotage.checks import reject_negative, reject_not_positive
from pilotage.errors import AgentToolBindingError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, parsed_input
from pilotage.values import value

SEARCH, CALL = "search_tools", "call_tool"
_WORD = re.compile(r"[a-z]+|[0-9]+|[^\W\d_]+")
_IN_NAME = 4
_SEARCH_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What the tool should do, in a few words, or its name."}
    },
    "required": ["query"],
    "additionalProperties": False,
}
_CALL_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": f"The name of a tool, as {SEARCH} gives it."},
        "arguments": {"type": "object", "description": "Its arguments, by its schema."},
    },
    "required": ["name", "arguments"],
}
CALL_SPEC = ModelToolSpec(
    CALL,
    JsonSchemaConstraint(_CALL_SCHEMA, strict=False),
    f"Call a tool that {SEARCH} has found, by its name.",
)


@value
class ToolSearchSettings:
    """When the tools of providers are searched for instead of shown, and how many a search finds.

    above: up to so many tools of providers are shown to the model of an agent.
    most: the definitions in the result of one search.
    """

    above: int = 50
    most: int = 5

    def __post_init__(self) -> None:
        reject_negative(self, above=self.above)
        reject_not_positive(self, most=self.most)


class ToolSearch:
    """The owner of `search_tools`."""


@value
class Searched:
    """The tools of providers that a search finds. Where it `is_on` they are not shown.

    A run that began when there were more tools may have searched: the search can be called where it is not on.
    """

    names: Collection[str]
    most: int
    is_on: bool


def searched_of(tools: Sequence[ToolFunction], settings: ToolSearchSettings) -> Searched | None:
    """Return which tools of providers are found by a search: those without arguments that only they may see."""
    found = {each: described(each) for each in tools if not tool_interface(each).input_sensitive_fields}
    names = frozenset(each.schema.name for each in found.values() if each is not None)
    return Searched(names, settings.most, len(tools) > settings.above) if names else None


def with_search(calling: ToolCallingSpec, searched: Searched) -> ToolCallingSpec:
    """Return the same tools, of which some are found by a search instead of shown.

    Raises:
        AgentDefinitionError: a tool that is shown has the name of the search.
    """
    hidden = [each for each in calling.tools if each.name in searched.names]
    search = search_tool(hidden, [calling.functions[each.name] for each in hidden], searched.most)
    if not searched.is_on:
        return replace(calling, functions={SEARCH: search, **calling.functions})
    (spec,) = ToolCallingSpec.from_tools([search]).tools
    shown = [each for each in calling.tools if each.name not in searched.names]
    functions = {**calling.functions, SEARCH: search}
    return ToolCallingSpec([*shown, spec, CALL_SPEC], calling.choice, calling.tool_name, functions)


def search_tool(specs: Sequence[ModelToolSpec], tools: Sequence[ToolFunction], most: int) -> ToolFunction:
    """Return the tool that searches these others."""
    is_foreign = any(found.metadata.returns_untrusted for each in tools if (found := described(each)))
    options = ToolOptions(
        name=SEARCH,
        description=(
            "Find tools by what they do. Most of your tools are not listed here: search before you say that "
            f"something cannot be done. Call what you find with {CALL}."
        ),
        effects=ToolEffects.read_only(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
        reads_untrusted=is_foreign,
        accepts_untrusted=True,
    )
    act = partial(_searched, specs, most)
    return described_tool(act, options, owner=ToolSearch, input_schema=_SEARCH_SCHEMA).callable


async def _searched(specs: Sequence[ModelToolSpec], most: int, arguments: JsonObject) -> JsonValue:
    query = str(arguments["query"])
    found = matches(specs, query, most)
    tools: JsonValue = [
        {"name": each.name, "description": each.description or "", "arguments": each.parameters.schema}
        for each in found
    ]
    if found:
        return {"tools": tools}
    return {"tools": tools, "note": f"None of {len(specs)} tools fits. Search with other words."}


def matches(specs: Sequence[ModelToolSpec], query: str, most: int) -> Sequence[ModelToolSpec]:
    """Return the tools that fit a query best; of equals the first. Pure.

    A word counts once, more in a name than in a description, and by its beginning where it is inflected.
    """
    wanted = set(_words(query))
    scored = [(_score(spec, wanted, query), -at, spec) for at, spec in enumerate(specs)]
    found = sorted((each for each in scored if each[0]), key=lambda each: each[:2], reverse=True)
    return [spec for _, _, spec in found[:most]]


def _score(spec: ModelToolSpec, wanted: set[str], query: str) -> int:
    if query.strip() == spec.name:
        return 1_000_000
    name, text = set(_words(spec.name)), set(_words(spec.description or ""))
    return sum(_IN_NAME * _fits(word, name) + _fits(word, text) for word in wanted)


def _fits(word: str, words: set[str]) -> bool:
    return word in words or (len(word) > 3 and any(_is_alike(word, each) for each in words))


def _is_alike(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    return shorter > 3 and one[: max(4, shorter - 2)] == other[: max(4, shorter - 2)]


def _words(text: str) -> list[str]:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()
    return _WORD.findall(plain)


def called_by_name(call: ModelToolCall) -> ModelToolCall:
    """Return the call that `call_tool` asks for: of the named tool, under the same id.

    Raises:
        AgentToolBindingError: it names no tool, or its arguments are no object.
    """
    name, arguments = call.arguments.get("name"), call.arguments.get("arguments", {})
    if not isinstance(name, str):
        raise not_by_name(name)
    try:
        given = as_object(parsed_input(arguments) if isinstance(arguments, str) else arguments)
    except (TypeError, ValueError) as error:
        raise _unfit("arguments is no object. Give the arguments of the tool by their names.") from error
    return replace(call, name=name, arguments=given)


def not_by_name(name: object) -> AgentToolBindingError:
    """Return the error for a tool that is not called by its name."""
    return _unfit(f"there is no tool {name!r} that is called like this. Search with {SEARCH}.")


def _unfit(problem: str) -> AgentToolBindingError:
    return AgentToolBindingError(f"{CALL}: {problem}", problems=[f"{CALL}: {problem}"])
