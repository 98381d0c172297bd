"""Annotations that are kept as text mean the same as those that are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pytest

from pilotage.agent.tools.bind import bind_agent_tool_invocation
from pilotage.agent.tools.schema import tool_interface
from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.jsonvalue import JsonValue
from pilotage.jsonvalue import JsonValue as Anything


class Address(TypedDict):
    city: str
    zip: NotRequired[str]


@dataclass
class Parent:
    children: list[Parent]


def tool(
    first: Anything, second: dict[str, JsonValue], third: JsonValue | None, home: Address, family: Parent
) -> list[Address]: ...


def test_text_is_resolved_with_the_names_of_its_module() -> None:
    schema: Any = tool_interface(tool).input_schema
    assert schema["properties"] == {
        "first": {},
        "second": {"type": "object", "additionalProperties": {}},
        "third": {"anyOf": [{}, {"type": "null"}]},
        "home": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
            "additionalProperties": False,
            "required": ["city"],
        },
        "family": {"$ref": "#/$defs/Parent"},
    }


def test_text_binds_like_types() -> None:
    payload = {"first": 1, "second": {}, "third": None, "home": {"city": "Bonn"}, "family": {"children": []}}
    assert bind_agent_tool_invocation(tool, payload).args == (1, {}, None, {"city": "Bonn"}, Parent([]))


@pytest.mark.parametrize("text", ["Missing", "list[", "int.missing", "list[Missing]"])
def test_text_that_means_nothing_is_told_apart(text: str) -> None:
    with pytest.raises(UnresolvedAnnotationError):
        resolve_annotation(text, globals())
