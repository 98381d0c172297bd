"""Guards: exposure policies, JSON with its sensitive fields masked or dropped, schemas that list those fields.

Pure: no I/O, inputs are never changed. The rules, from the outside in:

- lists are entered: each element is guarded as the list would be;
- a mapping that has the next name of the path is entered there; one that lacks it is taken for a mapping
  of such objects, so every container in it is guarded; a descriptor that says so enters every value;
- the end of the path is masked or, with DROP, removed: from its mapping, from its list, at the root None;
- None on the way is an object that is not there; everything else that does not fit is masked entirely.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, TypeAlias, assert_never, cast

from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.safety.fields import (
    ANY_DEPTH,
    DataSensitivity,
    MaskingKey,
    RedactionPolicy,
    SecretField,
    SensitiveFieldDescriptor,
    SensitiveMarker,
)
from pilotage.values import value

_Guarded: TypeAlias = "JsonValue | _Dropped"
SENSITIVE_KEYWORD = "x-pilotage-sensitive"
_Node: TypeAlias = dict[str, Any]


@value
class ContextExposurePolicy:
    """Exposure of sensitive values to a model. The default shows neither the values nor their places."""

    include_pii_values: bool = False
    include_sensitive_values: bool = False
    include_sensitive_schema_metadata: bool = False
    include_sensitive_context_metadata: bool = False
    masking_key: MaskingKey | None = None

    def can_expose_value(self, field: SensitiveMarker) -> bool:
        """Return whether a value with this marker may be shown unmasked."""
        return _can_expose(field, self.include_pii_values, self.include_sensitive_values)


@value
class EvidenceExposurePolicy:
    """Exposure of sensitive values in evidence. The default stores their places but not the values."""

    include_pii_values: bool = False
    include_sensitive_values: bool = False
    include_sensitive_metadata: bool = True
    masking_key: MaskingKey | None = None

    def can_expose_value(self, field: SensitiveMarker) -> bool:
        """Return whether a value with this marker may be stored unmasked."""
        return _can_expose(field, self.include_pii_values, self.include_sensitive_values)


ExposurePolicy: TypeAlias = ContextExposurePolicy | EvidenceExposurePolicy


def _can_expose(field: SensitiveMarker, include_pii: bool, include_sensitive: bool) -> bool:
    if isinstance(field, SecretField):
        return False
    match field.sensitivity:
        case DataSensitivity.PUBLIC | DataSensitivity.INTERNAL:
            return True
        case DataSensitivity.PII:
            return include_pii
        case DataSensitivity.CONFIDENTIAL | DataSensitivity.SECRET:
            return include_sensitive
        case _:
            assert_never(field.sensitivity)


class PathStep(Enum):
    """The steps of a path that are not the name of a field."""

    EACH_VALUE = auto()
    ANY_DEPTH = auto()


class _Dropped(Enum):
    DROPPED = auto()


Steps: TypeAlias = tuple[str | PathStep, ...]
_EVERYTHING: Steps = (PathStep.ANY_DEPTH,)


def guard_json_value(
    value: JsonValue,
    sensitive_fields: Sequence[SensitiveFieldDescriptor],
    policy: ExposurePolicy | None = None,
) -> JsonValue:
    """Return the value with every field masked or dropped that the policy does not expose.

    The descriptors are applied in order, each on the result of the one before. Without a policy nothing
    sensitive is exposed.
    """
    if not sensitive_fields:
        return value
    policy = policy or ContextExposurePolicy()
    for descriptor in sensitive_fields:
        if not policy.can_expose_value(descriptor.field):
            mask = _Mask(descriptor.field, policy.masking_key)
            guarded = _guard(value, steps_of(descriptor), mask)
            value = None if isinstance(guarded, _Dropped) else guarded
    return value


def steps_of(descriptor: SensitiveFieldDescriptor) -> Steps:
    """Return the path of a descriptor with the mappings it enters as steps of their own."""
    steps: list[str | PathStep] = []
    for position in range(len(descriptor.path) + 1):
        steps += [PathStep.EACH_VALUE] * descriptor.each_value_at.count(position)
        steps += [
            PathStep.ANY_DEPTH if name == ANY_DEPTH else name
            for name in descriptor.path[position : position + 1]
        ]
    return tuple(steps)


@value
class _Mask:
    field: SensitiveMarker
    key: MaskingKey | None

    def leaf(self, value: JsonValue) -> _Guarded:
        if self.field.redaction is RedactionPolicy.DROP:
            return _Dropped.DROPPED
        if isinstance(value, str):
            return self.field.guard_text(value, self.key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self.field.guard_text(str(value), self.key)
        return self.field.placeholder


def _guard(value: JsonValue, steps: Steps, mask: _Mask) -> _Guarded:
    if isinstance(value, list | tuple):
        return _remaining_items(value, [_guard(item, steps, mask) for item in value])
    if not steps or (steps == _EVERYTHING and not isinstance(value, Mapping)):
        return mask.leaf(value)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return mask.field.placeholder
    step, rest = steps[0], steps[1:]
    if step is PathStep.EACH_VALUE:
        return _remaining_values({key: _guard(item, rest, mask) for key, item in value.items()})
    if step is PathStep.ANY_DEPTH:
        return _guard_any_depth(value, rest, mask)
    if step in value:
        return _remaining_values({**value, step: _guard(value[step], rest, mask)})
    return _remaining_values({key: _guard_container(item, steps, mask) for key, item in value.items()})


def _guard_any_depth(value: JsonObject, rest: Steps, mask: _Mask) -> _Guarded:
    """Guard the value, then everything below it."""
    if not rest:
        return _remaining_values({key: _guard(item, _EVERYTHING, mask) for key, item in value.items()})
    here: _Guarded = value
    if rest[0] is PathStep.EACH_VALUE or rest[0] in value:
        here = _guard(value, rest, mask)
    if not isinstance(here, Mapping):
        return here
    below = (PathStep.ANY_DEPTH, *rest)
    return _remaining_values({key: _guard_container(item, below, mask) for key, item in here.items()})


def _guard_container(value: JsonValue, steps: Steps, mask: _Mask) -> _Guarded:
    """Apply the path inside a value that the path does not name: only containers can hold it."""
    if isinstance(value, Mapping):
        return _guard(value, steps, mask)
    if isinstance(value, list | tuple):
        return _remaining_items(value, [_guard_container(item, steps, mask) for item in value])
    return value


def _remaining_items(original: Sequence[JsonValue], items: list[_Guarded]) -> JsonValue:
    remaining = [item for item in items if not isinstance(item, _Dropped)]
    return tuple(remaining) if isinstance(original, tuple) else remaining


def _remaining_values(items: Mapping[str, _Guarded]) -> JsonObject:
    return {key: item for key, item in items.items() if not isinstance(item, _Dropped)}


def schema_with_sensitive_metadata(
    schema: JsonObject,
    sensitive_fields: Sequence[SensitiveFieldDescriptor],
    policy: ContextExposurePolicy | None = None,
) -> JsonObject:
    """Return the schema with the paths and markers of its sensitive fields listed under `x-pilotage-sensitive`.

    The very same schema is returned when the policy does not include schema metadata, which is the
    default. A path is followed through properties, items, mappings, alternatives and references; one without
    a target is ignored. A marker is listed once, even if the schema is passed again.
    """
    if policy is None or not policy.include_sensitive_schema_metadata or not sensitive_fields:
        return schema
    marked = cast(_Node, to_json_value(schema))
    for descriptor in sensitive_fields:
        metadata = descriptor.to_metadata()
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
    if step is PathStep.ANY_DEPTH:
        for below in _all_below(root, node, {}):
            yield from _nodes_at(root, below, rest)
        return
    for shape in _shapes(root, node, {}):
        if isinstance(step, str) and step in shape.get("properties", {}):
            yield from _nodes_at(root, shape["properties"][step], rest)
        elif isinstance(shape.get("additionalProperties"), dict):
            # A name that is no property may belong to the objects in a mapping.
            yield from _nodes_at(
                root, shape["additionalProperties"], rest if step is PathStep.EACH_VALUE else steps
            )


def _shapes(root: _Node, node: _Node, seen: dict[int, _Node]) -> Iterator[_Node]:
    """Yield the node and the nodes that add no name to a path: elements, alternatives, targets of references."""
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
    """Yield the target of a reference within this schema; other references have none."""
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
