"""Schemas that say which of their fields are sensitive.

Pure: no I/O, inputs are never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, cast

from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, Step, Steps, steps_of

SENSITIVE_KEYWORD = "x-pilotage-sensitive"

_Node: TypeAlias = dict[str, Any]


def schema_with_sensitive_metadata(
    schema: JsonObject,
    descriptors: Sequence[SensitiveFieldDescriptor],
    policy: ContextExposurePolicy | None = None,
) -> JsonObject:
    """The schema with the markers of its sensitive fields listed under `x-pilotage-sensitive`.

    The very same schema is returned when the policy does not include schema metadata, which is the
    default. A path is followed through properties, items, mappings, alternatives and references; one that
    leads nowhere is ignored. A marker is listed once, however often the schema passes through here.
    """
    if policy is None or not policy.include_sensitive_schema_metadata or not descriptors:
        return schema
    marked = cast(_Node, to_json_value(schema))
    for descriptor in descriptors:
        metadata = descriptor.field.to_metadata()
        for node in list(_nodes_at(marked, marked, steps_of(descriptor))):
            listed = cast("list[object]", node.setdefault(SENSITIVE_KEYWORD, []))
            if metadata not in listed:
                listed.append(metadata)
    return marked


def _nodes_at(root: _Node, node: _Node, steps: Steps) -> Iterator[_Node]:
    if not steps:
        yield node
        return
    step, rest = steps[0], steps[1:]
    if step is Step.ANY_DEPTH:
        for below in _all_below(root, node, {}):
            yield from _nodes_at(root, below, rest)
        return
    for shape in _shapes(root, node, {}):
        if isinstance(step, str) and step in shape.get("properties", {}):
            yield from _nodes_at(root, shape["properties"][step], rest)
        elif isinstance(shape.get("additionalProperties"), dict):
            # A name that is no property may belong to the objects in a mapping.
            yield from _nodes_at(
                root, shape["additionalProperties"], rest if step is Step.EACH_VALUE else steps
            )


def _shapes(root: _Node, node: _Node, seen: dict[int, _Node]) -> Iterator[_Node]:
    """The node and all that adds no name to a path: elements, alternatives, what a reference means."""
    if id(node) in seen:
        return
    seen[id(node)] = node
    yield node
    for inner in _unnamed(root, node):
        yield from _shapes(root, inner, seen)


def _unnamed(root: _Node, node: _Node) -> Iterator[_Node]:
    for keyword in ("prefixItems", "anyOf", "oneOf", "allOf"):
        yield from node.get(keyword, ())
    if isinstance(node.get("items"), dict):
        yield node["items"]
    if isinstance(node.get("$ref"), str):
        yield from _referenced(root, node["$ref"])


def _referenced(root: _Node, reference: str) -> Iterator[_Node]:
    """What a reference within this schema means; one to elsewhere means nothing here."""
    scheme, *names = reference.split("/")
    target: _Node = root if scheme == "#" else {}
    for name in names:
        target = cast(_Node, target.get(name.replace("~1", "/").replace("~0", "~"), {}))
    if target:
        yield target


def _all_below(root: _Node, node: _Node, seen: dict[int, _Node]) -> Iterator[_Node]:
    for shape in _shapes(root, node, seen):
        yield shape
        for inner in shape.get("properties", {}).values():
            yield from _all_below(root, inner, seen)
        if isinstance(shape.get("additionalProperties"), dict):
            yield from _all_below(root, shape["additionalProperties"], seen)
