"""The decisions of the replay kernel, law by law."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from inspect import getsource
from types import ModuleType

import pytest

from pilotage.runtime.journal import decisions, positions, progress
from pilotage.runtime.journal import kernel as kernel_module
from pilotage.runtime.journal.decisions import (
    BEGIN,
    BEGIN_AGAIN,
    END,
    HOLD,
    IDLE,
    NEWLY_OPEN,
    OPEN,
    PUT_OFF,
    SHUT,
    AnswerGates,
    CutShort,
    Deliver,
    Diverge,
    HeldGate,
    Pause,
    Release,
    ReturnAtOnce,
    StandStill,
    Withdraw,
)
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.positions import (
    Call,
    CallIdentity,
    CallScope,
    Record,
    RecordRow,
    RowStage,
    domain_of,
)

PRICE, PAY, SHIP = (CallIdentity("tool", name, f"{name}()") for name in ("price", "pay", "ship"))
OWNER, OTHER, THIRD = "owner", "other task", "third task"


def row(
    stage: RowStage,
    asked: CallIdentity,
    number: int,
    scope: str = "run",
    *,
    takes_turn: bool = True,
    passed: int = 0,
    at: float = 0,
) -> RecordRow:
    action_id = f"{scope}/{asked.label}#1"
    return RecordRow(
        stage, scope, number, asked, action_id, takes_turn, passed, at, f"outcome of {asked.label}"
    )


def ended(
    asked: CallIdentity, number: int, scope: str = "run", *, takes_turn: bool = True, at: float = 0
) -> RecordRow:
    return row(RowStage.ENDED, asked, number, scope, takes_turn=takes_turn, at=at)


def begun(asked: CallIdentity, number: int, scope: str = "run", *, at: float = 0) -> RecordRow:
    return row(RowStage.BEGUN, asked, number, scope, at=at)


def cut(asked: CallIdentity, number: int, scope: str = "run", *, passed: int = 0, at: float = 0) -> RecordRow:
    return row(RowStage.CUT, asked, number, scope, passed=passed, at=at)


def over(*rows: RecordRow) -> tuple[Kernel, CallScope]:
    kernel = Kernel(Record(rows))
    return kernel, kernel.open_scope("run", OWNER)


def made(kernel: Kernel, scope: CallScope, asked: CallIdentity, **options: bool) -> Call:
    return kernel.make(scope, asked, **options)


def test_a_new_run_begins_its_calls_and_returns_their_outcomes_without_a_turn() -> None:
    kernel, scope = over()
    call = made(kernel, scope, PAY)
    assert kernel.ask(call) == BEGIN
    assert kernel.known(call) is False
    assert kernel.program_ended() == END


def test_a_recorded_call_of_one_task_returns_at_once() -> None:
    recorded = ended(PRICE, 1, takes_turn=False)
    kernel, scope = over(recorded)
    assert kernel.is_replaying
    assert kernel.ask(made(kernel, scope, PRICE)) == ReturnAtOnce(recorded)
    assert not kernel.is_replaying
    assert kernel.ask(made(kernel, scope, PAY)) == BEGIN


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        (PAY, True),
        (replace(PAY, kind="step"), False),
        (replace(PAY, label="pay more"), False),
        (replace(PAY, fingerprint="pay(2)"), False),
    ],
)
def test_the_call_with_a_number_is_the_recorded_one(asked: CallIdentity, fits: bool) -> None:
    kernel, scope = over(ended(PAY, 1))
    call = made(kernel, scope, asked)
    if fits:
        assert kernel.ask(call) == HOLD
    else:
        decision = Diverge("run call 1", str(PAY), str(asked), action_id="run/pay#1")
        assert kernel.over == kernel.ask(call) == decision


def test_a_number_without_rows_is_a_new_call_and_held() -> None:
    kernel, scope = over(ended(PAY, 2))
    first, second = made(kernel, scope, PRICE), made(kernel, scope, PAY)
    kernel.see(scope.domain, OTHER)
    assert kernel.ask(first) == HOLD
    assert kernel.ask(second) == HOLD
    assert kernel.rest(scope.domain) == Deliver(second, second.end)
    assert kernel.rest(scope.domain) == Release((first,))


def test_a_call_that_was_begun_begins_again_when_all_recorded_calls_are_made() -> None:
    kernel, scope = over(begun(PAY, 1), begun(SHIP, 2))
    pay = made(kernel, scope, PAY)
    assert kernel.ask(pay) == HOLD
    ship = made(kernel, scope, SHIP)
    assert kernel.ask(ship) == BEGIN_AGAIN
    assert kernel.rest(scope.domain) == Release((pay,))


def test_a_call_without_rows_begins_if_calls_inside_of_it_are_recorded() -> None:
    kernel, run = over(ended(PAY, 1, takes_turn=False), ended(SHIP, 1, "run/tool:check#1", takes_turn=False))
    assert isinstance(kernel.ask(made(kernel, run, PAY)), ReturnAtOnce)
    check = kernel.make(run, PRICE, call_id="run/tool:check#1")
    assert kernel.ask(check) is BEGIN
    inside = kernel.open_scope("run/tool:check#1", OWNER, check)
    assert isinstance(kernel.ask(made(kernel, inside, SHIP)), ReturnAtOnce)
    assert not kernel.is_replaying


def test_a_call_without_rows_is_held_before_the_rest_outside_of_it() -> None:
    kernel, run = over(ended(PAY, 2), ended(SHIP, 1, "run/tool:check#1"))
    assert kernel.ask(kernel.make(run, PRICE, call_id="run/tool:check#1")) is HOLD


def test_branches_are_named_by_their_first_call_and_its_occurrence() -> None:
    kernel, scope = over()
    assert [kernel.branch(scope, name).path for name in ("pay:1", "pay:2", "pay:1")] == [
        "run/task:pay:1#1",
        "run/task:pay:2#1",
        "run/task:pay:1#2",
    ]


@pytest.mark.parametrize(
    ("path", "domain"),
    [
        ("run", "run"),
        ("run/task:pay:1#1", "run"),
        ("run/task:pay:1#1/task:read#2", "run"),
        ("run/task:pay:1#1/tool:pay#1", "run/task:pay:1#1/tool:pay#1"),
        ("run/vote#1/0/task:pay:1#1", "run/vote#1/0"),
    ],
)
def test_implicit_branches_share_the_order_of_the_scope_above(path: str, domain: str) -> None:
    assert domain_of(path) == domain


def test_live_outcomes_take_turns_where_several_tasks_have_made_calls() -> None:
    kernel, scope = over()
    branch = kernel.branch(scope, "pay")
    kernel.see(scope.domain, OTHER)
    first, second = made(kernel, scope, PRICE), made(kernel, branch, PAY)
    assert [kernel.ask(first), kernel.ask(second)] == [BEGIN, BEGIN]
    assert kernel.rest(scope.domain) == IDLE
    assert kernel.known(second) is True
    assert kernel.known(first) is True
    assert kernel.rest(scope.domain) == Deliver(second, None)
    assert kernel.rest(scope.domain) == Deliver(first, None)


def test_a_call_takes_a_turn_if_another_task_came_while_it_was_under_way() -> None:
    kernel, scope = over()
    call = made(kernel, scope, PRICE)
    kernel.ask(call)
    kernel.see(scope.domain, OTHER)
    kernel.task_ended(scope.domain, OTHER)
    assert kernel.known(call) is True
    later = made(kernel, scope, PAY)
    kernel.ask(later)
    assert kernel.known(later) is False


def test_a_call_that_returns_at_once_takes_no_turn_unless_it_was_held() -> None:
    kernel, scope = over(ended(PAY, 2))
    kernel.see(scope.domain, OTHER)
    held, pay, quick = (made(kernel, scope, asked) for asked in (PRICE, PAY, SHIP))
    kernel.ask(held)
    kernel.ask(pay)
    kernel.rest(scope.domain)
    kernel.rest(scope.domain)
    assert kernel.known(held, is_at_once=True) is True
    assert kernel.ask(quick) == BEGIN
    assert kernel.known(quick, is_at_once=True) is False


def test_a_call_recorded_as_cut_short_waits_for_its_cancellation() -> None:
    kernel, scope = over(cut(PRICE, 1), ended(PAY, 2))
    price, pay = made(kernel, scope, PRICE), made(kernel, scope, PAY)
    assert [kernel.ask(price), kernel.ask(pay)] == [HOLD, HOLD]
    assert isinstance(kernel.rest(scope.domain), StandStill)
    assert kernel.cancel(price) == CutShort(price)
    assert kernel.rest(scope.domain) == Deliver(pay, pay.end)


def test_a_cut_before_its_place_comes_when_the_place_is_reached() -> None:
    kernel, scope = over(ended(PAY, 2), cut(PRICE, 1, passed=1))
    price, pay = made(kernel, scope, PRICE), made(kernel, scope, PAY)
    assert [kernel.ask(price), kernel.ask(pay), kernel.cancel(price)] == [HOLD, HOLD, HOLD]
    assert kernel.rest(scope.domain) == Deliver(pay, pay.end)
    assert kernel.rest(scope.domain) == CutShort(price)


def test_a_cut_has_its_place_among_the_turns_not_among_the_rows() -> None:
    kernel, scope = over(ended(PAY, 2), cut(PRICE, 1, passed=0))
    price, pay = made(kernel, scope, PRICE), made(kernel, scope, PAY)
    kernel.ask(price)
    kernel.ask(pay)
    assert isinstance(kernel.rest(scope.domain), StandStill)
    assert kernel.cancel(price) == CutShort(price)


def test_what_the_program_cancels_is_cut_short_only_if_that_is_safe() -> None:
    kernel, scope = over()
    kernel.see(scope.domain, OTHER)
    read, pay = made(kernel, scope, PRICE), made(kernel, scope, PAY, is_repeatable=False)
    kernel.ask(read)
    kernel.ask(pay)
    assert kernel.cancel(pay) == PUT_OFF
    assert kernel.cancel(read) == CutShort(read, 0)
    assert kernel.known(pay) is True
    assert kernel.cancel(pay) == PUT_OFF


def test_a_cancellation_that_was_put_off_strikes_at_the_next_call() -> None:
    kernel, scope = over(ended(PRICE, 1, takes_turn=False))
    assert isinstance(kernel.ask(made(kernel, scope, PRICE), is_struck=True), ReturnAtOnce)
    pay = made(kernel, scope, PAY, is_repeatable=False)
    assert kernel.ask(pay, is_struck=True) == CutShort(pay, 0)


def test_a_held_call_is_cut_short_at_the_end_of_the_record() -> None:
    kernel, scope = over(ended(PAY, 2))
    price, pay = made(kernel, scope, PRICE), made(kernel, scope, PAY)
    kernel.ask(price)
    assert kernel.cancel(price) == HOLD
    kernel.ask(pay)
    assert kernel.rest(scope.domain) == Deliver(pay, pay.end)
    assert kernel.rest(scope.domain) == CutShort(price, 1)


def test_an_open_call_that_may_not_be_repeated_is_not_cut_short() -> None:
    kernel, scope = over(begun(PAY, 1), ended(SHIP, 2))
    pay = made(kernel, scope, PAY, is_repeatable=False)
    assert kernel.ask(pay) == HOLD
    assert kernel.cancel(pay) == PUT_OFF


def test_waits_pause_the_attempt_when_nothing_else_is_under_way() -> None:
    kernel, scope = over()
    kernel.see(scope.domain, OTHER)
    asks, works = made(kernel, scope, PAY), made(kernel, scope, PRICE)
    kernel.ask(asks)
    kernel.ask(works)
    kernel.park(asks, "question 1")
    assert kernel.rest(scope.domain) == IDLE
    kernel.known(works)
    assert isinstance(kernel.rest(scope.domain), Deliver)
    pause = Pause(frozenset({"question 1"}))
    assert kernel.rest(scope.domain) == pause
    assert kernel.confirm(pause) == kernel.over == pause


def test_no_further_call_begins_once_a_wait_is_answered() -> None:
    kernel, scope = over()
    asks, works = made(kernel, scope, PAY), made(kernel, scope, PRICE)
    kernel.see(scope.domain, OTHER)
    kernel.ask(asks)
    kernel.ask(works)
    kernel.park(asks, "question 1")
    kernel.is_draining = True
    inside = kernel.open_scope(INSIDE, THIRD, works)
    assert kernel.ask(made(kernel, inside, PRICE)) == BEGIN
    later = made(kernel, scope, SHIP)
    assert kernel.ask(later) == HOLD
    assert kernel.rest(scope.domain) == IDLE
    kernel.known(works)
    assert isinstance(kernel.rest(scope.domain), Deliver)
    kernel = _parked_beside_a_held_call()
    assert kernel.rest(kernel.open_scope("run", OTHER).domain) == Pause(frozenset({"question 1"}))


def _parked_beside_a_held_call() -> Kernel:
    kernel, scope = over()
    asks, later = made(kernel, scope, PAY), made(kernel, scope, SHIP)
    kernel.ask(asks)
    kernel.park(asks, "question 1")
    kernel.is_draining = True
    kernel.ask(later)
    return kernel


def test_the_outcome_of_a_call_that_was_waited_for_takes_a_turn() -> None:
    kernel, scope = over(begun(PAY, 1))
    begun_before, waited = made(kernel, scope, PAY), made(kernel, scope, PRICE)
    waited.was_waiting = True
    for call in (begun_before, waited):
        kernel.ask(call)
        assert kernel.known(call, is_at_once=True)


def test_a_wait_that_the_program_cuts_short_is_withdrawn() -> None:
    kernel, scope = over()
    call = made(kernel, scope, PAY, is_repeatable=False)
    kernel.ask(call)
    kernel.park(call, "question 1")
    assert kernel.cancel(call) == Withdraw(call, "question 1", 0)
    assert kernel.rest(scope.domain) == IDLE


def test_a_question_about_an_unknown_outcome_is_not_withdrawn() -> None:
    kernel, scope = over(begun(PAY, 1))
    call = made(kernel, scope, PAY, is_repeatable=False)
    assert kernel.ask(call) == BEGIN_AGAIN
    kernel.park(call, "question 1", may_withdraw=False)
    assert kernel.cancel(call) == PUT_OFF


def test_standing_still_is_a_divergence_that_says_where_calls_stand() -> None:
    kernel, scope = over(ended(PRICE, 1, "run/task:price#1", at=5), ended(PAY, 1, "run/task:pay#1", at=65))
    branch = kernel.branch(scope, "price")
    kernel.see(scope.domain, OTHER)
    kernel.ask(made(kernel, branch, PRICE))
    assert isinstance(kernel.rest(scope.domain), Deliver)
    new = made(kernel, scope, SHIP)
    assert kernel.ask(new) == HOLD
    still = kernel.rest(scope.domain)
    assert isinstance(still, StandStill)
    assert still.took == 65
    diverge = kernel.confirm(still)
    assert isinstance(diverge, Diverge)
    assert (diverge.where, diverge.recorded) == ("run/task:pay#1 call 1", str(PAY))
    assert diverge.tasks == (f"{new}: held until the end of the record",)


@pytest.mark.parametrize("rows", [[ended(PAY, 1)], [begun(PAY, 1)]])
def test_a_program_that_ended_has_used_its_record(rows: Sequence[RecordRow]) -> None:
    kernel, scope = over(*rows)
    kernel.see(scope.domain, OTHER)
    assert kernel.program_ended() == HOLD
    kernel.task_ended(scope.domain, OTHER)
    assert kernel.program_ended() == Diverge(
        "run call 1", str(PAY), "the program has ended", action_id="run/pay#1"
    )


_CLAIMED = RecordRow(RowStage.CLAIMED, "", 0, CallIdentity("", "", ""), "", at=100)
_TASK = "run/task:pay#1"


@pytest.mark.parametrize(
    ("rows", "took"),
    [
        ([begun(PAY, 1, _TASK, at=160), ended(PAY, 1, _TASK, at=161)], 60),
        ([begun(PAY, 1, _TASK, at=103), ended(PAY, 1, _TASK, at=190)], 3),
        ([ended(PRICE, 1, at=159), begun(PAY, 1, _TASK, at=160)], 60),
        ([ended(PRICE, 1, _TASK, at=150), ended(PAY, 2, _TASK, at=160)], 10),
        ([begun(PAY, 1, _TASK, at=101), cut(PAY, 1, _TASK, at=131)], 30),
        ([begun(PAY, 1, _TASK, at=101), replace(_CLAIMED, at=900), begun(PAY, 1, _TASK, at=905)], 5),
    ],
)
def test_a_program_has_as_long_as_it_took_from_its_own_last_row(rows: Sequence[RecordRow], took: int) -> None:
    record = Record([_CLAIMED, *rows])
    call = next(each for each in record.calls() if each.asked == PAY)
    assert call.took == took


RETURNED = RecordRow(
    RowStage.RETURNED, "run", 0, CallIdentity("the question about", "run/result#1", ""), "run/result#1", at=7
)


def test_nothing_new_begins_before_a_program_has_returned_whose_answer_was_asked_about() -> None:
    kernel, scope = over(ended(PRICE, 1, takes_turn=False), RETURNED)
    assert isinstance(kernel.ask(made(kernel, scope, PRICE)), ReturnAtOnce)
    new = made(kernel, scope, PAY)
    assert kernel.ask(new) == HOLD
    still = kernel.rest(scope.domain)
    assert isinstance(still, StandStill)
    assert (still.took, still.diverge.action_id, still.diverge.asked) == (
        7,
        "run/result#1",
        "the program has not ended",
    )
    kernel.returned()
    assert kernel.rest(scope.domain) == Release((new,))


def test_a_program_that_ends_otherwise_than_with_its_recorded_answer_has_diverged() -> None:
    kernel, _ = over(RETURNED)
    assert isinstance(kernel.program_ended(), Diverge)
    kernel, _ = over(RETURNED)
    kernel.returned()
    kernel.returned()
    assert kernel.program_ended() == END


def test_a_gate_in_front_of_a_recorded_answer_is_shut() -> None:
    kernel, scope = over(RETURNED)
    assert kernel.gate(scope, "fraud-check") == SHUT


def test_outcomes_behind_a_recorded_answer_wait_for_the_program_to_return() -> None:
    kernel, scope = over(begun(PAY, 1), RETURNED, ended(PAY, 1))
    kernel.see(scope.domain, OTHER)
    pay = made(kernel, scope, PAY)
    assert kernel.ask(pay) == HOLD
    assert isinstance(kernel.rest(scope.domain), StandStill)
    kernel.returned()
    assert kernel.rest(scope.domain) == Deliver(pay, pay.end)


def test_a_program_does_not_end_while_a_task_holds_a_recorded_call() -> None:
    kernel, scope = over(begun(PAY, 1), ended(PRICE, 2))
    kernel.see(scope.domain, OTHER)
    pay, price = made(kernel, scope, PAY), made(kernel, scope, PRICE)
    assert [kernel.ask(pay), kernel.ask(price)] == [HOLD, HOLD]
    assert kernel.rest(scope.domain) == Deliver(price, price.end)
    assert not kernel.is_replaying
    assert kernel.program_ended() == HOLD
    assert kernel.rest(scope.domain) == Release((pay,))
    assert kernel.program_ended() == END


def test_a_dead_attempt_stays_dead() -> None:
    kernel, scope = over(ended(PAY, 1))
    call = made(kernel, scope, SHIP)
    dead = kernel.over
    assert dead is not None
    for decision in (
        kernel.ask(call),
        kernel.cancel(call),
        kernel.rest(scope.domain),
        kernel.gate(scope, "fraud-check"),
        kernel.program_ended(),
        kernel.ask(made(kernel, scope, PRICE)),
    ):
        assert decision is dead


INSIDE, INSIDE_SHIP = "run/pay#1", "run/ship#1"


def test_calls_inside_of_an_ended_call_are_not_entered() -> None:
    kernel, scope = over(begun(PAY, 1), ended(PRICE, 1, INSIDE), ended(PAY, 1, takes_turn=False))
    assert isinstance(kernel.ask(made(kernel, scope, PAY)), ReturnAtOnce)
    assert not kernel.is_replaying


def test_an_open_call_with_recorded_calls_inside_begins_behind_everything_outside() -> None:
    kernel, scope = over(begun(PAY, 1), ended(PRICE, 1, INSIDE), ended(SHIP, 2))
    kernel.see(scope.domain, OTHER)
    pay, ship, new = (made(kernel, scope, asked) for asked in (PAY, SHIP, PRICE))
    assert [kernel.ask(call) for call in (pay, ship, new)] == [HOLD, HOLD, HOLD]
    assert kernel.rest(scope.domain) == Deliver(ship, ship.end)
    assert kernel.rest(scope.domain) == Release((pay,))
    inside = kernel.open_scope(INSIDE, THIRD, pay)
    price = made(kernel, inside, PRICE)
    assert kernel.ask(price) == HOLD
    assert isinstance(kernel.rest(scope.domain), StandStill)
    assert kernel.rest(inside.domain) == Deliver(price, price.end)
    assert kernel.rest(scope.domain) == Release((new,))


def test_calls_inside_wait_while_a_person_is_asked_about_the_call_around_them() -> None:
    kernel, scope = over(begun(PAY, 1), ended(PRICE, 1, INSIDE))
    pay = made(kernel, scope, PAY, is_repeatable=False)
    assert kernel.ask(pay) == BEGIN_AGAIN
    kernel.park(pay, "question 1", may_withdraw=False)
    assert kernel.rest(scope.domain) == Pause(frozenset({"question 1"}))


def test_all_unknown_outcomes_are_asked_about_before_the_attempt_pauses() -> None:
    kernel, scope = over(begun(PAY, 1), ended(PRICE, 1, INSIDE), begun(SHIP, 2), begun(PRICE, 3))
    pay, ship = (made(kernel, scope, asked, is_repeatable=False) for asked in (PAY, SHIP))
    price, new = made(kernel, scope, PRICE), made(kernel, scope, SHIP, is_repeatable=False)
    assert [kernel.ask(call) for call in (pay, ship, price, new)] == [BEGIN_AGAIN, HOLD, HOLD, HOLD]
    kernel.park(pay, "question 1", may_withdraw=False)
    assert kernel.rest(scope.domain) == Release((ship,))
    kernel.park(ship, "question 2", may_withdraw=False)
    assert kernel.rest(scope.domain) == Pause(frozenset({"question 1", "question 2"}))


def test_a_call_that_began_to_be_asked_about_acts_at_the_end_of_the_record() -> None:
    kernel, scope = over(begun(PAY, 1), ended(PRICE, 1, INSIDE, takes_turn=False), begun(SHIP, 2))
    pay, ship = (made(kernel, scope, asked, is_repeatable=False) for asked in (PAY, SHIP))
    assert [kernel.ask(call) for call in (pay, ship)] == [BEGIN_AGAIN, HOLD]
    assert not kernel.hold_again(pay)
    kernel.park(pay, "timer")
    assert kernel.rest(scope.domain) == Release((ship,))
    assert kernel.hold_again(ship)
    assert kernel.cancel(ship) == PUT_OFF
    assert kernel.rest(scope.domain) == Pause(frozenset({"timer"}))
    inside = kernel.open_scope(INSIDE, THIRD, pay)
    assert isinstance(kernel.ask(made(kernel, inside, PRICE)), ReturnAtOnce)
    assert kernel.rest(scope.domain) == Release((ship,))
    assert not kernel.hold_again(ship)


def test_an_outcome_inside_of_a_call_does_not_wait_for_calls_inside_of_a_parked_one() -> None:
    deeper = f"{INSIDE_SHIP}/pay#1"
    kernel, scope = over(
        begun(PAY, 1),
        begun(SHIP, 2),
        begun(PRICE, 1, INSIDE),
        begun(PAY, 1, INSIDE_SHIP),
        ended(PRICE, 1, f"{INSIDE}/price#1"),
        ended(SHIP, 1, deeper),
    )
    pay, ship = (made(kernel, scope, asked) for asked in (PAY, SHIP))
    assert [kernel.ask(call) for call in (pay, ship)] == [BEGIN_AGAIN, BEGIN_AGAIN]
    price = made(kernel, kernel.open_scope(INSIDE, OTHER, pay), PRICE, is_repeatable=False)
    paid = made(kernel, kernel.open_scope(INSIDE_SHIP, THIRD, ship), PAY)
    assert [kernel.ask(price), kernel.ask(paid)] == [BEGIN_AGAIN, BEGIN_AGAIN]
    kernel.park(price, "question 1", may_withdraw=False)
    shipped = made(kernel, kernel.open_scope(deeper, THIRD, paid), SHIP)
    assert kernel.ask(shipped) == HOLD
    assert kernel.rest(shipped.domain) == Deliver(shipped, shipped.end)


def test_a_call_that_waits_for_a_parked_one_inside_is_not_under_way() -> None:
    kernel, scope = over()
    pay = made(kernel, scope, PAY)
    kernel.ask(pay)
    inside = kernel.open_scope(INSIDE, THIRD, pay)
    ship = made(kernel, inside, SHIP)
    kernel.ask(ship)
    kernel.park(ship, "question 1")
    assert kernel.rest(inside.domain) == Pause(frozenset({"question 1"}))


def test_branches_of_a_gather_have_orders_of_their_own() -> None:
    one, two = ended(PRICE, 1, "run/vote#1/0"), ended(PAY, 1, "run/vote#1/1")
    kernel, _ = over(two, one)
    first, second = kernel.open_scope("run/vote#1/0", OWNER), kernel.open_scope("run/vote#1/1", OTHER)
    price, pay = made(kernel, first, PRICE), made(kernel, second, PAY)
    assert [kernel.ask(price), kernel.ask(pay)] == [HOLD, HOLD]
    assert kernel.rest(first.domain) == Deliver(price, one)
    assert kernel.rest(second.domain) == Deliver(pay, two)


def test_a_folded_branch_is_not_entered() -> None:
    fold = replace(row(RowStage.FOLDED, CallIdentity("step", "vote", ""), 0), id="run/vote#1/0")
    kernel, _ = over(ended(PRICE, 1, "run/vote#1/0"), fold)
    assert kernel.folded("run/vote#1/0") == fold
    assert kernel.folded("run/vote#1/1") is None
    assert not kernel.is_replaying


def test_a_program_that_leaves_a_folded_branch_out_stands_still() -> None:
    fold = replace(row(RowStage.FOLDED, CallIdentity("step", "vote", ""), 0), id="run/vote#1/0")
    kernel, scope = over(fold)
    assert kernel.ask(made(kernel, scope, PAY)) == HOLD
    still = kernel.rest(scope.domain)
    assert isinstance(still, StandStill)
    diverge = kernel.confirm(still)
    assert isinstance(diverge, Diverge)
    assert diverge.action_id == "run/vote#1/0"


def test_a_branch_that_ended_has_used_what_is_recorded_inside_of_it() -> None:
    kernel, scope = over(ended(PRICE, 1, "run/vote#1/0"), ended(PAY, 1, "run/vote#1/1"))
    assert kernel.program_ended("run/vote#1/2") == END
    assert kernel.program_ended("run/vote#10") == END
    kernel.see(scope.domain, OTHER)
    assert kernel.program_ended("run/vote#1/1") == HOLD
    kernel.task_ended(scope.domain, OTHER)
    diverge = kernel.program_ended("run/vote#1/1")
    assert isinstance(diverge, Diverge)
    assert diverge.where == "run/vote#1/1 call 1"


def test_a_scope_that_is_entered_again_does_not_use_its_record_twice() -> None:
    kernel, _ = over(begun(PAY, 1), ended(PRICE, 1, INSIDE, takes_turn=False))
    kernel.make(kernel.open_scope("run", OWNER), PAY)
    first = made(kernel, kernel.open_scope(INSIDE, THIRD), PRICE)
    assert isinstance(kernel.ask(first), ReturnAtOnce)
    again = made(kernel, kernel.open_scope(INSIDE, THIRD), PRICE)
    assert kernel.ask(again) == BEGIN


def test_the_first_outcome_of_a_repeated_call_counts() -> None:
    first, second = ended(PAY, 1), replace(ended(PAY, 1), outcome="another")
    kernel, scope = over(begun(PAY, 1), first, begun(PAY, 1), second)
    pay = made(kernel, scope, PAY)
    kernel.ask(pay)
    assert kernel.rest(scope.domain) == Deliver(pay, first)
    assert not scope.domain.turns


def test_the_time_of_a_pause_is_not_waited_for() -> None:
    claim = replace(row(RowStage.CLAIMED, PAY, 0, at=5000))
    kernel, scope = over(
        ended(PRICE, 1, takes_turn=False, at=5), claim, ended(PAY, 1, "run/task:pay#1", at=5003)
    )
    kernel.ask(made(kernel, scope, PRICE))
    still = kernel.rest(scope.domain)
    assert isinstance(still, StandStill)
    assert still.took == 3


CHECK = "fraud-check"


def test_a_gate_is_open_in_new_runs_and_says_so_in_a_row() -> None:
    kernel, scope = over()
    assert kernel.gate(scope, CHECK) == NEWLY_OPEN


def test_a_gate_is_open_where_its_row_is() -> None:
    gate = replace(row(RowStage.CHANGED, CallIdentity("gate", CHECK, ""), 0), outcome=None)
    kernel, scope = over(gate, ended(PAY, 1, takes_turn=False))
    assert kernel.gate(scope, CHECK) == OPEN
    assert isinstance(kernel.ask(made(kernel, scope, PAY)), ReturnAtOnce)


def test_a_gate_is_shut_where_the_record_goes_on_with_something_else() -> None:
    kernel, scope = over(ended(PAY, 1, takes_turn=False))
    assert kernel.gate(scope, CHECK) == SHUT
    kernel.ask(made(kernel, scope, PAY))
    assert kernel.gate(scope, CHECK) == NEWLY_OPEN


def test_a_gate_in_front_of_recorded_branches_is_shut_when_the_program_is_at_rest() -> None:
    kernel, scope = over(ended(PAY, 1, "run/task:pay#1"))
    held = kernel.gate(scope, CHECK)
    assert isinstance(held, HeldGate)
    assert kernel.rest(scope.domain) == AnswerGates((held.gate,), SHUT)


def test_a_gate_behind_its_scope_waits_for_the_end_of_the_record() -> None:
    kernel, scope = over(ended(PAY, 1, "run/task:pay#1"))
    held = kernel.gate(scope, CHECK)
    assert isinstance(held, HeldGate)
    pay = made(kernel, kernel.branch(scope, "pay"), PAY)
    kernel.ask(pay)
    assert isinstance(kernel.rest(scope.domain), Deliver)
    assert kernel.rest(scope.domain) == AnswerGates((held.gate,), NEWLY_OPEN)


def test_rows_without_numbers_are_matched_by_id_and_come_when_asked_for() -> None:
    old = replace(ended(PAY, 0), id="run/tool:pay#1")
    kernel, scope = over(old)
    call = kernel.make(scope, PAY, call_id="run/tool:pay#1")
    assert kernel.ask(call) == ReturnAtOnce(old)
    assert not kernel.is_replaying


@pytest.mark.parametrize("module", [decisions, kernel_module, positions, progress])
def test_the_kernel_knows_no_event_loop_and_no_clock(module: ModuleType) -> None:
    imported = {
        name.partition(".")[0]
        for name in re.findall(r"^(?:from|import) (\S+)", getsource(module), re.MULTILINE)
    }
    assert imported <= {"__future__", "collections", "enum", "typing", "pilotage"}
