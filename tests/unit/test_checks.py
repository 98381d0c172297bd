"""The checks that value objects make of their own fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from pilotage import checks
from pilotage.errors import AgentDefinitionError


@dataclass(frozen=True)
class Thing:
    title: str = "t"
    note: str | None = None


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: checks.reject_blank(Thing(), title=" \n"),
            "Thing.title is blank. Give it at least one visible character.",
        ),
        (
            lambda: checks.reject_blank(Thing(), note=""),
            "Thing.note is blank. Give it at least one visible character, or leave it out.",
        ),
        (
            lambda: checks.reject_blank("call", x=""),
            "call.x is blank. Give it at least one visible character.",
        ),
        (
            lambda: checks.reject_blank("Lease", owner=" "),
            "Lease.owner is blank. Give it at least one visible character.",
        ),
        (lambda: checks.reject_not_positive(Thing(), title=0), "Thing.title is 0. Use a positive number."),
        (
            lambda: checks.reject_not_positive(Thing(), note=float("inf")),
            "Thing.note is inf. Use a positive number, or leave it out.",
        ),
        (
            lambda: checks.reject_not_positive("f", n=Decimal("NaN")),
            "f.n is Decimal('NaN'). Use a positive number.",
        ),
        (lambda: checks.reject_not_positive("f", n=True), "f.n is True. Use a positive number."),
        (lambda: checks.reject_negative("f", n=-1), "f.n is -1. Use zero or more."),
        (lambda: checks.reject_empty("f", n=()), "f.n is empty. Give it at least one member."),
        (
            lambda: checks.reject_naive("f", at=datetime(2026, 1, 1)),  # noqa: DTZ001 - the case
            "f.at has no time zone (2026-01-01T00:00:00). Use datetime.now(UTC).",
        ),
    ],
)
def test_a_wrong_field_is_named_with_the_way_out(check: Callable[[], None], message: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        check()
    assert str(caught.value) == message


def test_right_and_absent_fields_pass() -> None:
    checks.reject_blank(Thing(), title="x", note=None)
    checks.reject_not_positive(Thing(), a=1, b=0.5, c=Decimal(1), d=None)
    checks.reject_negative(Thing(), a=0, b=None)
    checks.reject_empty(Thing(), a=[1])
    checks.reject_naive(Thing(), a=datetime.now(UTC), b=None)
