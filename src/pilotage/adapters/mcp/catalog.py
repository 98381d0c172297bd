"""The tools that a server lists: their names for models, their schemas checked and bounded, their digests. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

from pilotage.adapters.mcp.errors import McpStartError
from pilotage.adapters.mcp.schemas import why_not_valid
from pilotage.adapters.mcp.settings import McpServerSettings, McpTool
from pilotage.agent.tools.metadata import DataAccess, Externality, Idempotency, ToolEffects
from pilotage.jsonvalue import (
    JsonObject,
    JsonValue,
    is_list,
    is_object,
    json_digest,
    object_or_empty,
    shortened,
    text_digest,
)
from pilotage.values import value

HONOURS_KEY = "io.pilotage/honours-idempotency-key"
"""The key in the `_meta` of a tool whose server recognises a repeated call by its idempotency key."""

_LONGEST_NAME = 64
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_DIGITS = 8
_LONGEST_LISTED_NAME = 256
_LONGEST_DESCRIPTION = 20_000
_DEEPEST = 32
_MOST_PARTS = 20_000

_DANGEROUS = ToolEffects(DataAccess.READ_WRITE, Externality.EXTERNAL, destructive=True, network=True)


@value
class Definition:
    """A tool as its server lists it."""

    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    hints: JsonObject = field(default_factory=dict[str, JsonValue])
    honours_key: bool = False

    @property
    def digest(self) -> str:
        """The digest of everything that a model or a person decides by."""
        return json_digest(
            {
                "name": self.name,
                "description": self.description,
                "input_schema": self.input_schema,
                "output_schema": self.output_schema,
                "hints": self.hints,
                "honours_key": self.honours_key,
            }
        )


def definition_of(listed: Mapping[str, Any]) -> Definition:
    """Return the definition in an entry of a list, as the protocol has it."""
    hints: Mapping[str, Any] = listed.get("annotations") or {}
    meta: Mapping[str, Any] = listed.get("_meta") or {}
    title = listed.get("title") or hints.get("title")
    description = str(listed.get("description") or title or "")
    return Definition(
        name=str(listed["name"]),
        description=shortened(description, _LONGEST_DESCRIPTION),
        input_schema=listed["inputSchema"],
        output_schema=listed.get("outputSchema"),
        hints={name: each for name, each in hints.items() if isinstance(each, bool)},
        honours_key=meta.get(HONOURS_KEY) is True,
    )


def offered(server: McpServerSettings, listed: Sequence[Definition]) -> tuple[Definition, ...]:
    """Return the definitions that agents are offered: the one place that decides it.

    Raises:
        McpStartError: a tool cannot be offered, or is declared and not listed; with all problems and their remedies.
    """
    left_out = frozenset(server.leaves_out)
    on_offer = [each for each in listed if each.name not in left_out]
    problems = [*_same_names(on_offer), *_same_wire_names(server, on_offer)]
    if len(listed) > server.limits.most_tools:
        problems.append(
            f"it lists {len(listed)} tools; {server.limits.most_tools} are allowed (McpLimits.most_tools)"
        )
    problems += [f"tool {_shown(each.name)} {why}" for each in on_offer if (why := why_not(each)) is not None]
    names = {each.name for each in listed}
    for name in sorted({*server.tools, *left_out} - names):
        known = ", ".join(map(_shown, sorted(names))) or "none"
        problems.append(f"tool {name!r} is declared, and the server does not list it; it lists {known}")
    if problems:
        remedy = "Leave tools out that cannot be offered: leaves_out={'...'}."
        raise McpStartError(server.name, f"{'; '.join(problems)}. {remedy}")
    return tuple(on_offer)


def wire_name(prefix: str, name: str) -> str:
    """Return the name of a tool for models: letters, digits, '_' and '-', at most 64, distinct for distinct tools."""
    plain = f"{prefix}{name}"
    if _PLAIN.fullmatch(plain) and len(plain) <= _LONGEST_NAME:
        return plain
    mark = f"_{text_digest(name)[:_DIGITS]}"
    readable = _OTHER.sub("_", plain).strip("_")
    return f"{readable[: _LONGEST_NAME - len(mark)]}{mark}"


def why_not(definition: Definition) -> str | None:
    """Return why a tool cannot be offered; None where it can."""
    name, schema = definition.name, definition.input_schema
    if not name.strip() or len(name) > _LONGEST_LISTED_NAME or not name.isprintable() or not name.isascii():
        return "has a name that no model can be given: at most 256 printable characters of ASCII"
    for what, each in (("input", schema), ("output", definition.output_schema)):
        if each is not None and (why := why_not_schema(each)) is not None:
            return f"has an {what} schema that {why}"
    if schema.get("type", "object") != "object" or not is_object(schema.get("properties", {})):
        return "has an input schema that describes no object"
    if "runtime_context" in object_or_empty(schema.get("properties")):
        return "has a property 'runtime_context', which the runtime fills"
    return None


def why_not_schema(schema: object) -> str | None:
    """Return why a schema cannot be used; None where it can. It is not walked deeper than is allowed."""
    if not is_object(schema):
        return "is no object"
    parts, level = 0, list[object]([schema])
    for _ in range(_DEEPEST):
        parts += len(level)
        if parts > _MOST_PARTS:
            return f"has more than {_MOST_PARTS} parts"
        if (reference := _foreign_reference(level)) is not None:
            return f"refers to {_shown(reference)}, which is outside of it"
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            why = why_not_valid(cast(JsonObject, schema))
            return None if why is None else f"is no JSON schema ({why})"
    return f"is nested deeper than {_DEEPEST} levels"


def _inside(part: object) -> list[object]:
    inner = list(part.values()) if is_object(part) else list(part) if is_list(part) else []
    return [each for each in inner if is_object(each) or (is_list(each) and not isinstance(each, str))]


def _foreign_reference(level: Sequence[object]) -> str | None:
    for part in level:
        reference = part.get("$ref") if is_object(part) else None
        if isinstance(reference, str) and not reference.startswith("#"):
            return reference
    return None


def _same_names(listed: Sequence[Definition]) -> list[str]:
    counted = Counter(each.name for each in listed)
    return [f"it lists {count} tools named {_shown(name)}" for name, count in counted.items() if count > 1]


def _same_wire_names(server: McpServerSettings, listed: Sequence[Definition]) -> list[str]:
    by_wire: dict[str, set[str]] = {}
    for each in listed:
        by_wire.setdefault(wire_name(server.tool_prefix, each.name), set()).add(each.name)
    return [
        f"its tools {', '.join(map(_shown, sorted(names)))} would all be {wire!r} for models"
        for wire, names in by_wire.items()
        if len(names) > 1
    ]


def _shown(name: str) -> str:
    return ascii(shortened(name, 80))


def declared(server: McpServerSettings, definition: Definition) -> McpTool:
    """Return what is known about a tool: the declaration of the application, with the risk that the hints add.

    Hints lower a risk only where the application trusts them, and only of tools that it does not declare itself.
    """
    own = server.tools.get(definition.name)
    if own is None and server.trusts_hints:
        return _as_hinted(definition.hints)
    tool = own or McpTool()
    effects = _raised(tool.effects or _DANGEROUS, definition.hints)
    is_once = definition.hints.get("idempotentHint") is False
    is_raised = is_once and tool.idempotency is Idempotency.IDEMPOTENT
    return replace(
        tool, effects=effects, idempotency=Idempotency.NON_IDEMPOTENT if is_raised else tool.idempotency
    )


def _raised(effects: ToolEffects, hints: JsonObject) -> ToolEffects:
    access = effects.data_access
    if hints.get("readOnlyHint") is False and access in {DataAccess.READ, DataAccess.NONE}:
        access = DataAccess.READ_WRITE
    return replace(
        effects,
        data_access=access,
        destructive=effects.destructive or hints.get("destructiveHint") is True,
        network=effects.network or hints.get("openWorldHint") is True,
    )


def _as_hinted(hints: JsonObject) -> McpTool:
    """Return what hints say, with the defaults of the protocol."""
    is_open = hints.get("openWorldHint", True) is True
    externality = Externality.EXTERNAL if is_open else Externality.LOCAL
    if hints.get("readOnlyHint") is True:
        return McpTool(ToolEffects(DataAccess.READ, network=is_open), Idempotency.IDEMPOTENT)
    is_idempotent = hints.get("idempotentHint") is True
    return McpTool(
        ToolEffects(
            DataAccess.READ_WRITE,
            externality,
            destructive=hints.get("destructiveHint", True) is True,
            network=is_open,
        ),
        Idempotency.IDEMPOTENT if is_idempotent else Idempotency.NON_IDEMPOTENT,
    )
