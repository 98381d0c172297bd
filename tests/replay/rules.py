"""Builds of the runtime with one rule of durability switched off, and the programs of the kit that fail in each.

The switches are planted like the bugs of `tests/crash/planted.py`: nothing in the product knows of them. A build says
which verdict its programs come to; the same programs are as they should be in the build that has every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pilotage.errors import ToolError
from pilotage.runtime import history
from pilotage.runtime.door.outcome import Outcomes
from pilotage.runtime.effect import new_outcome
from pilotage.runtime.journal.decisions import END
from pilotage.runtime.journal.durable_replay import DurableReplay
from pilotage.runtime.journal.kernel import Kernel
from tests.crash.planted import Planting, a_pause_does_not_wait_for_siblings, fingerprints_are_ignored
from tests.replay.kit import PROGRAMS
from tests.replay.story import Verdict, try_everywhere, try_losing


@dataclass(frozen=True)
class Build:
    """A build without one rule: how the rule is switched off, and the verdict of some programs."""

    rule: str
    plant: Callable[[Planting], None]
    fails: Mapping[str, Verdict]
    lost: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Where programs are tried with a damaged record: the action before the pause, and the first one that is lost."""


def new_calls_begin_at_once(planting: Planting) -> None:
    planting.put(Kernel, "_may_begin", lambda _self, _call: True)


def programs_get_what_tools_give(planting: Planting) -> None:
    outcome_of: Any = Outcomes.outcome_of
    ended: Any = Outcomes.ended

    def raw(self: Any, effect: Any, result: object) -> object:
        outcome = outcome_of(self, effect, result)
        return new_outcome(outcome.record, outcome.view, result)

    def same_error(self: Any, effect: Any, error: BaseException) -> BaseException:
        decoded: BaseException = ended(self, effect, error)
        return error if isinstance(error, ToolError) else decoded

    planting.put(Outcomes, "outcome_of", raw)
    planting.put(Outcomes, "ended", same_error)


def cuts_are_not_recorded(planting: Planting) -> None:
    def forgotten(self: Any, call: Any, *, has_acted: bool) -> bool:
        return False

    planting.put(DurableReplay, "cut", forgotten)


def outcomes_come_when_they_are_there(planting: Planting) -> None:
    def free(self: Any, call: Any, domain: Any, *, is_at_once: bool) -> bool:
        return True

    planting.put(Kernel, "_is_free", free)
    planting.put(Kernel, "_takes_turn", lambda _self, call, _end: call.is_cut)


def a_program_may_end_early(planting: Planting) -> None:
    planting.put(Kernel, "program_ended", lambda _self, _below: END)


def records_are_believed(planting: Planting) -> None:
    planting.put(history, "damage_in", lambda _rows, _head, _chain: None)


_ASKS, _DIVERGES, _STUCK = Verdict.ASKS, Verdict.DIVERGES, Verdict.STUCK
_WRONG, _TWICE = Verdict.WRONG, Verdict.TWICE
BUILDS: dict[int, Build] = {
    11: Build(
        "position before effect",
        fingerprints_are_ignored,
        {
            "order_by_chance": _TWICE,
            "two_payments_in_order_of_chance": _TWICE,
            "shipping_of_a_shuffled_basket": _TWICE,
        },
    ),
    12: Build(
        "nothing new before the end of the record",
        new_calls_begin_at_once,
        {
            "tasks_that_begin_with_uuids": _TWICE,
            "background_payment_with_a_uuid": _TWICE,
            "tasks_that_begin_with_the_clock": _TWICE,
        },
    ),
    13: Build(
        "live equals replay",
        programs_get_what_tools_give,
        {
            "catches_an_error_by_its_class": _DIVERGES,
            "subclass_result": _DIVERGES,
            "result_that_its_tool_changes": _DIVERGES,
        },
    ),
    14: Build(
        "being cut short is an outcome",
        cuts_are_not_recorded,
        {
            "time_out_around_two_payments": _DIVERGES,
            "cancelled_payment": _DIVERGES,
            "cancelled_worker": _DIVERGES,
        },
    ),
    15: Build(
        "order is part of the record",
        outcomes_come_when_they_are_there,
        {
            "queue_of_workers": _DIVERGES,
            "semaphore_and_total": _DIVERGES,
            "chain_of_events": _DIVERGES,
        },
    ),
    16: Build(
        "no end while the record has more",
        a_program_may_end_early,
        {
            "returns_early_if_it_sees_its_own_effect": _WRONG,
            "refuses_if_it_sees_its_own_effect": Verdict.FAILS,
            "task_that_returns_early_if_it_sees_its_own_effect": _WRONG,
        },
    ),
    17: Build(
        "a wait unwinds nobody else",
        a_pause_does_not_wait_for_siblings,
        {
            "gather_payments": _ASKS,
            "tasks_with_equal_first_calls": _ASKS,
            "tools_that_call_tools_side_by_side": _ASKS,
        },
    ),
    18: Build(
        "a record is checked before it is believed",
        records_are_believed,
        # No process can take the run up, and nothing says why.
        {"in_order": _STUCK, "loop_of_payments": _STUCK, "one_approval": _STUCK},
        {
            "in_order": ("run/tool:ship#1", "run/tool:pay#1"),
            "loop_of_payments": ("run/tool:pay#3", "run/tool:pay#2"),
            "one_approval": ("run/tool:transfer#1", "run/tool:pay#1"),
        },
    ),
}
"""The builds by the number of their rule."""


def verdicts_without(rule: int) -> dict[str, Verdict]:
    """Return what becomes of the programs of a build: the verdict that is written beside each, if it comes to that."""
    build = BUILDS[rule]
    found: dict[str, Verdict] = {}
    for name, verdict in build.fails.items():
        if name in build.lost:
            found[name] = try_losing(PROGRAMS[name], *build.lost[name])
        else:
            tried = try_everywhere(PROGRAMS[name], until=verdict)
            found[name] = verdict if verdict in tried.counts else tried.worst
    return found
