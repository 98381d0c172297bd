"""Held text leaves from left to right, once."""

from __future__ import annotations

from pilotage.safety.redaction.held import HeldText, Replaced, Resumed


def test_text_leaves_once_and_in_order() -> None:
    held = HeldText()
    assert held.add("abc") == 0
    assert held.add("def") == 3
    held.release(2)
    held.release(1)
    held.replace("#", "c")
    held.swallow(4)
    held.release(6)
    assert held.take(forget=0) == ["ab", Replaced("#", "c"), Resumed("d"), "ef"]
    assert held.take(forget=0) == []


def test_forgotten_text_moves_positions_but_not_the_stream() -> None:
    held = HeldText()
    held.add("abc")
    held.release(2)
    assert held.take(forget=2) == ["ab"]
    assert (held.text, held.offset, held.before(0), held.before(1)) == ("c", 2, "b", "c")
    held.release(1)
    assert held.take(forget=0) == ["c"]


def test_nothing_stands_before_the_start_of_the_stream() -> None:
    held = HeldText()
    held.add("a")
    assert held.take(forget=0) == []
    assert (held.before(0), held.text) == ("", "a")


def test_text_that_is_passed_over_counts() -> None:
    held = HeldText()
    held.pass_over("xyz")
    assert (held.offset, held.before(0), held.text) == (3, "z", "")
