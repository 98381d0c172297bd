"""Wrong uses of the doubles: what each mistake is answered with, word for word."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from pilotage.errors import AgentDefinitionError
from pilotage.testing import (
    FailWrite,
    LoseReply,
    ScriptedModel,
    StopAfter,
    StopBefore,
    VirtualClock,
    calls,
    fails,
    says,
    turn,
    when,
)

_ANY: Any = "Hello."

SCRIPTS: list[tuple[str, Callable[[], object], str]] = [
    ("turn-without-parts", turn, "turn.parts is empty. Give it at least one member."),
    (
        "turn-with-two-outputs",
        lambda: turn(says(output=1), says(output=2)),
        "turn: 2 parts have an output. A turn has at most one.",
    ),
    ("calls-blank", lambda: calls(" "), "calls.name is blank. Give it at least one visible character."),
    ("fails-blank", lambda: fails(""), "fails.message is blank. Give it at least one visible character."),
    ("when-without-turns", lambda: when("x"), "when.turns is empty. Give it at least one member."),
    (
        "when-blank",
        lambda: when("", says("a")),
        "when.condition is blank. Give it at least one visible character.",
    ),
    (
        "turn-that-is-text",
        lambda: ScriptedModel([_ANY]),
        "ScriptedModel: 'Hello.' is no turn. Write says(...), calls(...), fails(...) or a list of calls.",
    ),
    (
        "empty-list",
        lambda: when("x", []),
        "when: [] is no turn. Write says(...), calls(...), fails(...) or a list of calls.",
    ),
    (
        "turn-behind-a-failure",
        lambda: ScriptedModel([fails("down"), says("a")], by_transcript=True),
        "ScriptedModel(by_transcript=True): a turn follows fails(...), and no transcript shows when it is due. "
        "Put fails(...) last, or leave by_transcript out.",
    ),
]

CLOCKS: list[tuple[str, Callable[[], object], str]] = [
    (
        "naive-start",
        lambda: VirtualClock(datetime(2026, 1, 1)),  # noqa: DTZ001 - that is the mistake
        "VirtualClock.start has no time zone (2026-01-01T00:00:00). Use datetime.now(UTC).",
    ),
    (
        "back-in-time",
        lambda: VirtualClock().advance(-1),
        "VirtualClock.advance.seconds is -1. Use zero or more.",
    ),
]

FAULTS: list[tuple[str, Callable[[], object], str]] = [
    ("stop-before-0", lambda: StopBefore(0), "StopBefore.number is 0. Use a positive number."),
    ("stop-after-0", lambda: StopAfter(0), "StopAfter.number is 0. Use a positive number."),
    ("lose-reply-0", lambda: LoseReply(0), "LoseReply.number is 0. Use a positive number."),
    ("fail-write-0", lambda: FailWrite(0), "FailWrite.number is 0. Use a positive number."),
]

WRONG = [
    pytest.param(make, AgentDefinitionError, message, id=name)
    for name, make, message in [*SCRIPTS, *CLOCKS, *FAULTS]
]


@pytest.mark.parametrize(("make", "error", "message"), WRONG)
def test_a_wrong_double_is_answered_with_what_to_write_instead(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message
