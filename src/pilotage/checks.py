"""Checks of the fields of value objects.

Each one raises `AgentDefinitionError` with the owner, the field, the problem and the remedy.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal

from pilotage.errors import AgentDefinitionError


def reject_blank(owner: object, /, **fields: str | None) -> None:
    """Refuse texts that are empty after stripping; None counts as not given."""
    for name, value in fields.items():
        if value is not None and not value.strip():
            raise AgentDefinitionError(
                f"{_name_of(owner)}.{name} is blank. Give it at least one visible character"
                + _or_leave_out(owner, name)
            )


def reject_not_positive(owner: object, /, **fields: float | Decimal | None) -> None:
    """Refuse numbers that are zero, negative or not finite; None counts as not given."""
    for name, value in fields.items():
        if value is None or (type(value) is int and value > 0):
            continue
        if isinstance(value, bool) or not _is_positive_and_finite(value):
            raise AgentDefinitionError(
                f"{_name_of(owner)}.{name} is {value!r}. Use a positive number{_or_leave_out(owner, name)}"
            )


def reject_negative(owner: object, /, **fields: float | Decimal | None) -> None:
    """Refuse counts below zero; None counts as not given."""
    for name, value in fields.items():
        if value is not None and value < 0:
            raise AgentDefinitionError(f"{_name_of(owner)}.{name} is {value!r}. Use zero or more.")


def reject_outside_unit(owner: object, /, **fields: float | None) -> None:
    """Refuse shares outside 0 to 1, NaN included; None counts as not given."""
    for name, value in fields.items():
        if value is not None and not 0 <= value <= 1:
            raise AgentDefinitionError(
                f"{_name_of(owner)}.{name} is {value!r}. Use a number from 0 to 1{_or_leave_out(owner, name)}"
            )


def reject_naive(owner: object, /, **fields: datetime | None) -> None:
    """Refuse times without a time zone, which are ambiguous."""
    for name, value in fields.items():
        if value is not None and value.utcoffset() is None:
            raise AgentDefinitionError(
                f"{_name_of(owner)}.{name} has no time zone ({value.isoformat()}). Use datetime.now(UTC)."
            )


def reject_empty(owner: object, /, **fields: Collection[object]) -> None:
    """Refuse collections without a member."""
    for name, value in fields.items():
        if not value:
            raise AgentDefinitionError(f"{_name_of(owner)}.{name} is empty. Give it at least one member.")


def _is_positive_and_finite(value: float | Decimal) -> bool:
    return value > 0 if type(value) is int else Decimal(value).is_finite() and value > 0


def _name_of(owner: object) -> str:
    return owner if isinstance(owner, str) else type(owner).__name__


def _or_leave_out(owner: object, name: str) -> str:
    """Return the end of a message: only a field that has a default can be left out."""
    fields: dict[str, object] = getattr(owner, "__dataclass_fields__", {})
    has_default = getattr(fields.get(name), "default", ...) is None
    return ", or leave it out." if has_default else "."
