"""Revisions of steering instructions: which one of an input counts, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import pytest

from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalKind,
    AgentSteeringUpdate,
    InputProgress,
    SteeringSettlement,
    settle_revisions,
    update_of,
)
from pilotage.errors import AgentDefinitionError, CallerError
from pilotage.jsonvalue import JsonObject

STEERING = AgentSignalKind.STEERING_INSTRUCTION
NOTED, TAKEN = InputProgress(2), InputProgress(2, is_taken=True)


def sent(word: str) -> AgentSignal:
    """A signal by a short word: `a1` is final, `a2?` a draft, `a3-` a withdrawal, anything longer a plain one."""
    if len(word) > 3:
        return AgentSignal(word, "run-1", STEERING, {"text": word})
    update = AgentSteeringUpdate(
        word[0], word, int(word[1]), final=not word.endswith("?"), withdrawn=word.endswith("-")
    )
    return AgentSignal(word, "run-1", STEERING, update.to_payload())


def settled(words: str, known: Mapping[str, InputProgress] | None = None) -> dict[str, str]:
    """The non-empty parts of a settlement, in words."""
    found: SteeringSettlement = settle_revisions([sent(word) for word in words.split()], known or {})
    parts = {name: " ".join(each.id for each in signals) for name, signals in vars(found).items()}
    return {name: ids for name, ids in parts.items() if ids}


@pytest.mark.parametrize(
    ("words", "known", "expected"),
    [
        ("", {}, {}),
        ("plain a1", {}, {"usable": "plain a1"}),
        ("a1 a2", {}, {"usable": "a2", "superseded": "a1"}),
        ("a2 a1", {}, {"usable": "a2", "superseded": "a1"}),
        ("a1 b1 a2", {}, {"usable": "b1 a2", "superseded": "a1"}),
        ("a1 a2?", {}, {"noted": "a2?", "superseded": "a1"}),
        ("a1? a2", {}, {"usable": "a2", "superseded": "a1?"}),
        ("a1 a2-", {}, {"noted": "a2-", "superseded": "a1"}),
        ("a2- a1", {}, {"noted": "a2-", "superseded": "a1"}),
        ("a2- a3", {}, {"usable": "a3", "superseded": "a2-"}),
        ("a1-", {}, {"noted": "a1-"}),
        ("a1 a2 b1", {"a": NOTED}, {"usable": "b1", "superseded": "a1 a2"}),
        ("a3", {"a": NOTED}, {"usable": "a3"}),
        ("a3 a4- a5? b1", {"a": TAKEN}, {"usable": "b1", "late": "a3 a4- a5?"}),
    ],
)
def test_the_newest_revision_of_an_input_counts(
    words: str, known: dict[str, InputProgress], expected: dict[str, str]
) -> None:
    assert settled(words, known) == expected


@pytest.mark.parametrize("words", ["a1 a2 a3", "a1 a2? a3", "a1 a2 a3-", "a1? a2- a3?"])
def test_the_order_in_which_revisions_come_changes_nothing(words: str) -> None:
    ends = [
        {each.id for each in settle_revisions([sent(word) for word in order], {}).superseded}
        for order in permutations(words.split())
    ]
    assert all(each == set(words.split()[:2]) for each in ends)


@pytest.mark.parametrize("words", ["a1 a2 a3", "a1 a2? a3", "a1 a2- a3", "a1? a2- a3-"])
def test_revisions_that_are_settled_one_by_one_end_like_those_that_are_settled_together(words: str) -> None:
    """Unless one is taken in between, it makes no difference when a run looks at its signals."""
    together = settled(words)
    waiting: list[AgentSignal] = []
    known: dict[str, InputProgress] = {}
    for word in words.split():
        found = settle_revisions([*waiting, sent(word)], known)
        waiting = found.usable
        for each in found.noted:
            known["a"] = InputProgress(int(each.id[1]))
    assert " ".join(each.id for each in waiting) == together.get("usable", "")


def test_of_two_signals_with_the_same_revision_the_first_counts() -> None:
    first, second = sent("a1"), AgentSignal("other", "run-1", STEERING, {**sent("a1").payload, "text": "no"})
    found = settle_revisions([first, second], {})
    assert (found.usable, found.superseded) == ([first], [second])


@pytest.mark.parametrize(
    "payload",
    [
        {"input_id": 7, "text": "go"},
        {"input_id": "a", "text": "go", "revision": 0},
        {"input_id": "a", "text": "go", "revision": True},
        {"input_id": "a", "text": "go", "revision": "2"},
        {"input_id": "a", "text": "go", "final": "yes"},
        {"input_id": "a", "text": "go", "withdrawn": 1},
        {"input_id": " ", "text": "go"},
        {"input_id": "a"},
        {"input_id": "a", "text": " "},
        {"input_id": "a", "final": False},
    ],
)
def test_a_payload_that_names_an_input_and_is_no_revision_is_refused(payload: JsonObject) -> None:
    with pytest.raises(CallerError):
        AgentSteeringUpdate.from_payload(payload)
    assert update_of(AgentSignal("s", "run-1", STEERING, payload)) is None


def test_an_update_comes_back_from_its_payload() -> None:
    for update in (
        AgentSteeringUpdate("a", "go"),
        AgentSteeringUpdate("a", "go", 3, final=False),
        AgentSteeringUpdate("a", revision=4, withdrawn=True),
    ):
        assert AgentSteeringUpdate.from_payload(update.to_payload()) == update
    assert AgentSteeringUpdate.from_payload({"text": "go"}) is None


def test_only_a_withdrawal_needs_no_words() -> None:
    assert AgentSteeringUpdate("a", withdrawn=True).text is None
    for wrong in ({}, {"final": False}, {"text": " "}, {"text": "go", "revision": 0}):
        with pytest.raises(AgentDefinitionError):
            AgentSteeringUpdate("a", **wrong)  # type: ignore[arg-type]
