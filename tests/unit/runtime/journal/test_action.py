"""What makes two actions the same, and which may be repeated."""

from __future__ import annotations

import pytest
from tests.unit.runtime.rows import TOOL, an_action

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.journal.scope import fingerprint_of

PAY = fingerprint_of("run-1", "run/tool:pay#1", TOOL, "pay", {"amount": "5", "to": "Ada"})


def test_the_order_of_arguments_does_not_matter() -> None:
    assert fingerprint_of("run-1", "run/tool:pay#1", TOOL, "pay", {"to": "Ada", "amount": "5"}) == PAY


@pytest.mark.parametrize(
    ("salt", "action_id", "kind", "name", "asked"),
    [
        ("run-2", "run/tool:pay#1", TOOL, "pay", {"amount": "5", "to": "Ada"}),
        ("run-1", "run/tool:pay#2", TOOL, "pay", {"amount": "5", "to": "Ada"}),
        ("run-1", "run/tool:pay#1", AgentActionKind.STEP, "pay", {"amount": "5", "to": "Ada"}),
        ("run-1", "run/tool:pay#1", TOOL, "ship", {"amount": "5", "to": "Ada"}),
        ("run-1", "run/tool:pay#1", TOOL, "pay", {"amount": 5, "to": "Ada"}),
        ("run-1", "run/tool:pay#1", TOOL, "pay", {"amount": "5"}),
        ("run-1", "run/tool:pay#1", TOOL, "pay", None),
    ],
    ids=["run", "place", "kind", "name", "type of an argument", "missing argument", "no arguments"],
)
def test_everything_that_is_asked_is_in_the_fingerprint(
    salt: str, action_id: str, kind: AgentActionKind, name: str, asked: JsonValue
) -> None:
    assert fingerprint_of(salt, action_id, kind, name, asked) != PAY


def test_a_fingerprint_shows_nothing_of_the_arguments() -> None:
    assert "Ada" not in PAY
    assert len(PAY) == 32


@pytest.mark.parametrize("is_read_only", [True, False])
@pytest.mark.parametrize(
    ("idempotency", "repeatable"),
    [
        (Idempotency.IDEMPOTENT, True),
        (Idempotency.CONDITIONALLY_IDEMPOTENT, True),
        (Idempotency.NON_IDEMPOTENT, False),
        (Idempotency.UNKNOWN, False),
    ],
)
def test_what_only_reads_or_is_idempotent_may_be_repeated(
    idempotency: Idempotency, repeatable: bool, is_read_only: bool
) -> None:
    action = an_action(idempotency=idempotency, is_read_only=is_read_only)
    assert action.may_be_repeated is (repeatable or is_read_only)
