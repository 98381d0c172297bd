"""Ids and bounds of children."""

from __future__ import annotations

import pytest

from pilotage.runtime.children.launch import cancellation_of
from pilotage.runtime.children.tasks import ChildBounds, child_id, packet_label


def test_the_id_of_a_child_follows_from_parent_and_step_alone() -> None:
    first = child_id("parent", "run/child:kid#1")
    assert first == child_id("parent", "run/child:kid#1")
    others = {
        child_id("parent", "run/child:kid#2"),
        child_id("parent", "run/g#1/0/child:kid#1"),
        child_id("other", "run/child:kid#1"),
    }
    assert len({first, *others}) == 4
    assert len(first) == 32


def test_a_packet_stands_for_the_same_child_wherever_it_is_delegated() -> None:
    label = packet_label("p")
    ids = {child_id("parent", f"{place}/{label}#{n}") for place in ("run", "run/g#1/0") for n in (1, 2)}
    assert len(ids) == 1
    assert child_id("other", f"run/{label}#1") not in ids


@pytest.mark.parametrize("packet", ["a/b", "a#1", "a/b#1", "ü", " ", "a%2Fb"])
def test_a_packet_id_of_any_text_has_a_label_that_keeps_it_apart(packet: str) -> None:
    label = packet_label(packet)
    assert "/" not in label
    assert "#" not in label
    assert label != packet_label(f"{packet}!")
    assert child_id("parent", f"run/{label}#1") == child_id("parent", f"run/x#1/{label}#7")


@pytest.mark.parametrize(
    ("given", "parents", "expected"),
    [
        (None, None, None),
        (None, ("a",), ("a",)),
        (("a", "b"), None, ("a", "b")),
        (("a", "b"), ("b", "c"), ("b",)),
        (("a",), (), ()),
        ((), ("a",), ()),
    ],
)
def test_a_child_may_never_use_more_than_its_parent(
    given: tuple[str, ...] | None, parents: tuple[str, ...] | None, expected: tuple[str, ...] | None
) -> None:
    assert ChildBounds(capabilities=given).within(parents) == expected


def test_the_cancellation_of_a_child_has_the_same_id_every_time() -> None:
    assert cancellation_of("c").id == cancellation_of("c").id
    assert cancellation_of("c").agent_state_id == "c"
