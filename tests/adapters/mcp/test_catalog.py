"""Names, risks and digests of listed tools. Pure."""

from __future__ import annotations

import pytest

from pilotage.adapters.mcp import McpServerSettings, McpTool
from pilotage.adapters.mcp.catalog import Definition, declared, why_not_schema, wire_name
from pilotage.agent import DataAccess, Idempotency, ToolEffects
from pilotage.jsonvalue import JsonObject

OBJECT: JsonObject = {"type": "object", "properties": {}}
READ = ToolEffects.read_only()


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("read_file", "fs_read_file"),
        ("read-file", "fs_read-file"),
        ("a" * 61, "fs_" + "a" * 61),
    ],
)
def test_a_name_that_every_model_takes_stays(name: str, wire: str) -> None:
    assert wire_name("fs_", name) == wire


def test_other_names_are_written_so_that_they_stay_distinct() -> None:
    names = ["a.b", "a/b", "a b", "a_b", "x" * 100, "x" * 101, "é"]
    wires = [wire_name("fs_", name) for name in names]
    assert len(set(wires)) == len(names)
    assert all(len(wire) <= 64 and wire.isascii() and wire.replace("-", "_").isidentifier() for wire in wires)
    assert wires[0].startswith("fs_a_b_")


def test_a_tool_that_is_not_declared_may_destroy() -> None:
    tool = declared(McpServerSettings("fs"), Definition("x", "", OBJECT, hints={"readOnlyHint": True}))
    assert tool.effects is not None
    assert (tool.effects.destructive, tool.effects.network) == (True, True)
    assert tool.idempotency is Idempotency.UNKNOWN


@pytest.mark.parametrize(
    ("hints", "effects"),
    [
        ({}, READ),
        ({"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}, READ),
        ({"readOnlyHint": False}, ToolEffects(DataAccess.READ_WRITE)),
        ({"destructiveHint": True}, ToolEffects(DataAccess.READ, destructive=True)),
        ({"openWorldHint": True}, ToolEffects(DataAccess.READ, network=True)),
    ],
)
def test_hints_raise_the_risk_of_a_declared_tool(hints: JsonObject, effects: ToolEffects) -> None:
    server = McpServerSettings("fs", tools={"x": McpTool(effects=READ)}, trusts_hints=True)
    assert declared(server, Definition("x", "", OBJECT, hints=hints)).effects == effects


def test_a_hint_ends_that_a_call_is_repeated() -> None:
    server = McpServerSettings("fs", tools={"x": McpTool(effects=READ, idempotency=Idempotency.IDEMPOTENT)})
    tool = declared(server, Definition("x", "", OBJECT, hints={"idempotentHint": False}))
    assert tool.idempotency is Idempotency.NON_IDEMPOTENT


@pytest.mark.parametrize(
    ("hints", "risk"),
    [
        ({}, (True, True, Idempotency.NON_IDEMPOTENT)),
        ({"readOnlyHint": True, "openWorldHint": False}, (False, False, Idempotency.IDEMPOTENT)),
        ({"destructiveHint": False, "idempotentHint": True}, (False, True, Idempotency.IDEMPOTENT)),
    ],
)
def test_trusted_hints_count_for_tools_that_are_not_declared(
    hints: JsonObject, risk: tuple[bool, bool, Idempotency]
) -> None:
    server = McpServerSettings("fs", trusts_hints=True)
    tool = declared(server, Definition("x", "", OBJECT, hints=hints))
    assert tool.effects is not None
    assert (tool.effects.destructive, tool.effects.network, tool.idempotency) == risk


def test_the_digest_covers_what_a_person_decides_by() -> None:
    one = Definition("x", "d", OBJECT)
    others = [
        Definition("y", "d", OBJECT),
        Definition("x", "e", OBJECT),
        Definition("x", "d", {**OBJECT, "required": []}),
        Definition("x", "d", OBJECT, OBJECT),
        Definition("x", "d", OBJECT, hints={"readOnlyHint": True}),
        Definition("x", "d", OBJECT, honours_key=True),
    ]
    assert len({one.digest, *(each.digest for each in others)}) == 7


def test_a_schema_is_not_walked_deeper_than_allowed() -> None:
    schema: dict[str, object] = {}
    level = schema
    for _ in range(100_000):
        level["x"] = level = {}
    assert why_not_schema(schema) == "is nested deeper than 32 levels"
    assert why_not_schema({"enum": list(range(30_000))}) is None
    assert why_not_schema({"allOf": [{"x": {}}] * 30_000}) == "has more than 20000 parts"
    while schema:  # so that it is not freed level by level
        _, schema = schema.popitem()  # type: ignore[assignment]
