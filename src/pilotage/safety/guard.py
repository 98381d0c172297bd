"""Guards: who may see what, and JSON with its sensitive fields masked or dropped.

Pure: no I/O, inputs are never changed. The rules, from the outside in:

- lists are entered: each element is guarded as the list would be;
- a mapping that has the next name of the path is entered there; one that lacks it is taken for a mapping
  of such objects, so every container in it is guarded; a descriptor that says so enters every value;
- the end of the path is masked or, with DROP, removed: from its mapping, from its list, at the root None;
- None on the way is an object that is not there; everything else that does not fit is masked entirely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TypeAlias, assert_never

from pilotage.jsonvalue import JsonObject, JsonValue
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


@value
class ContextExposurePolicy:
    """What a model may see. The default shows no sensitive value and does not say where they are."""

    include_pii_values: bool = False
    include_sensitive_values: bool = False
    include_sensitive_schema_metadata: bool = False
    include_sensitive_context_metadata: bool = False
    masking_key: MaskingKey | None = None

    def can_expose_value(self, field: SensitiveMarker) -> bool:
        """Whether a value with this marker may be shown as it is."""
        return _can_expose(field, self.include_pii_values, self.include_sensitive_values)


@value
class EvidenceExposurePolicy:
    """What a record may hold. The default keeps no sensitive value but says where they were."""

    include_pii_values: bool = False
    include_sensitive_values: bool = False
    include_sensitive_metadata: bool = True
    masking_key: MaskingKey | None = None

    def can_expose_value(self, field: SensitiveMarker) -> bool:
        """Whether a value with this marker may be kept as it is."""
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


class Step(Enum):
    """The steps of a path that are not the name of a field."""

    EACH_VALUE = auto()
    ANY_DEPTH = auto()


class _Dropped(Enum):
    DROPPED = auto()


Steps: TypeAlias = tuple[str | Step, ...]
_EVERYTHING: Steps = (Step.ANY_DEPTH,)


def guard_json_value(
    value: JsonValue, descriptors: Sequence[SensitiveFieldDescriptor], policy: ExposurePolicy | None = None
) -> JsonValue:
    """The value with every field masked or dropped that the policy does not expose.

    The descriptors are applied in order, each on the result of the one before. Without a policy nothing
    sensitive is exposed.
    """
    if not descriptors:
        return value
    policy = policy or ContextExposurePolicy()
    for descriptor in descriptors:
        if not policy.can_expose_value(descriptor.field):
            mask = _Mask(descriptor.field, policy.masking_key)
            guarded = _guard(value, steps_of(descriptor), mask)
            value = None if isinstance(guarded, _Dropped) else guarded
    return value


def steps_of(descriptor: SensitiveFieldDescriptor) -> Steps:
    """The path of a descriptor with the mappings it enters as steps of their own."""
    steps: list[str | Step] = []
    for position in range(len(descriptor.path) + 1):
        steps += [Step.EACH_VALUE] * descriptor.each_value_at.count(position)
        steps += [
            Step.ANY_DEPTH if name == ANY_DEPTH else name for name in descriptor.path[position : position + 1]
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
        return _kept_items(value, [_guard(item, steps, mask) for item in value])
    if not steps or (steps == _EVERYTHING and not isinstance(value, Mapping)):
        return mask.leaf(value)
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return mask.field.placeholder
    step, rest = steps[0], steps[1:]
    if step is Step.EACH_VALUE:
        return _kept_values({key: _guard(item, rest, mask) for key, item in value.items()})
    if step is Step.ANY_DEPTH:
        return _guard_any_depth(value, rest, mask)
    if step in value:
        return _kept_values({**value, step: _guard(value[step], rest, mask)})
    return _kept_values({key: _guard_container(item, steps, mask) for key, item in value.items()})


def _guard_any_depth(value: JsonObject, rest: Steps, mask: _Mask) -> _Guarded:
    """Guard what lies here, then the same in everything below."""
    if not rest:
        return _kept_values({key: _guard(item, _EVERYTHING, mask) for key, item in value.items()})
    here: _Guarded = value
    if rest[0] is Step.EACH_VALUE or rest[0] in value:
        here = _guard(value, rest, mask)
    if not isinstance(here, Mapping):
        return here
    below = (Step.ANY_DEPTH, *rest)
    return _kept_values({key: _guard_container(item, below, mask) for key, item in here.items()})


def _guard_container(value: JsonValue, steps: Steps, mask: _Mask) -> _Guarded:
    """Look for the path in a value that the path does not name: only containers can hold it."""
    if isinstance(value, Mapping):
        return _guard(value, steps, mask)
    if isinstance(value, list | tuple):
        return _kept_items(value, [_guard_container(item, steps, mask) for item in value])
    return value


def _kept_items(original: Sequence[JsonValue], items: list[_Guarded]) -> JsonValue:
    kept = [item for item in items if not isinstance(item, _Dropped)]
    return tuple(kept) if isinstance(original, tuple) else kept


def _kept_values(items: Mapping[str, _Guarded]) -> JsonObject:
    return {key: item for key, item in items.items() if not isinstance(item, _Dropped)}
