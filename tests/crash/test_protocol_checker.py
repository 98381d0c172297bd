"""The ownership and intent protocol, explored in every order of its steps; and the real ledger held against it.

The model keeps every law in every state. Leave one rule out, and a law breaks; the counterexample is a shortest one.
What the model does, the real ledger, writer and store do too: the same rows, epochs, outcomes and deaths.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Sequence
from functools import partial

import pytest

from tests.crash.protocol.explorer import Exploration, explore
from tests.crash.protocol.flaws import Flaw, Setting
from tests.crash.protocol.laws import Law, broken
from tests.crash.protocol.real import RealRun
from tests.crash.protocol.steps import initial, steps
from tests.crash.protocol.store import standing
from tests.crash.protocol.walks import Walk, all_walks, random_walk, retraced, told
from tests.crash.protocol.words import Kind, Left, State, Step, What

READ_ONLY, IDEMPOTENT, RECONCILED, UNREPEATABLE = Kind

PAYMENT = Setting((UNREPEATABLE,))
NOTE = Setting((IDEMPOTENT,))
SHIPMENT = Setting((RECONCILED,))
REFUND = Setting((UNREPEATABLE,), needs_approval=True, left=Left(faults=1))
CANCELLED = Setting((UNREPEATABLE,), left=Left(faults=1, cancels=1))

WORLDS = [
    pytest.param(Setting((READ_ONLY,), left=Left(faults=3)), 39_979, id="a-read-and-three-faults"),
    pytest.param(NOTE, 19_881, id="an-idempotent-action-and-two-faults"),
    pytest.param(SHIPMENT, 19_043, id="a-reconciled-action-and-two-faults"),
    pytest.param(PAYMENT, 106_821, id="an-unrepeatable-action-and-two-faults"),
    pytest.param(
        Setting((UNREPEATABLE,), is_truthful=False, left=Left(faults=1, retries=2)),
        5_930,
        id="people-who-answer-anything",
    ),
    pytest.param(Setting((READ_ONLY, UNREPEATABLE), left=Left(1)), 5_152, id="a-read-before-a-payment"),
    pytest.param(Setting((IDEMPOTENT, UNREPEATABLE), left=Left(1)), 6_086, id="a-note-before-a-payment"),
    pytest.param(Setting((UNREPEATABLE, UNREPEATABLE), left=Left(1)), 9_688, id="two-payments"),
    pytest.param(REFUND, 14_202, id="an-approval"),
    pytest.param(CANCELLED, 17_554, id="a-cancellation"),
    pytest.param(
        REFUND._replace(left=Left(1, 1, 1)),
        54_732,
        id="an-approval-and-a-cancellation",
        marks=pytest.mark.exhaustive,
    ),
    pytest.param(
        PAYMENT._replace(owners=3, left=Left(1, 0)),
        62_779,
        id="three-owners",
        marks=pytest.mark.exhaustive,
    ),
]

BROKEN = [
    (Flaw.NO_FENCE, Law.OWNER_ACTS, PAYMENT),
    (Flaw.NO_FENCE, Law.ONCE_PER_ATTEMPT, CANCELLED),
    (Flaw.NO_FENCE, Law.END_IS_END, PAYMENT),
    (Flaw.OLD_RECEIPTS, Law.ONE_WINNER, PAYMENT),
    (Flaw.SHARED_TOKENS, Law.ONE_WINNER, PAYMENT),
    (Flaw.SHARED_TOKENS, Law.LANDS_ONCE, PAYMENT),
    (Flaw.SAME_EPOCH, Law.IN_ORDER, PAYMENT),
    (Flaw.SAME_EPOCH, Law.ONE_WINNER, PAYMENT),
    (Flaw.NEW_TOKEN, Law.ONE_WINNER, PAYMENT),
    (Flaw.NEW_HEAD, Law.IN_ORDER, PAYMENT),
    (Flaw.NEW_HEAD, Law.LANDS_ONCE, CANCELLED),
    (Flaw.ACTS_FIRST, Law.WRITTEN_FIRST, PAYMENT),
    (Flaw.ACTS_FIRST, Law.LANDS_ONCE, PAYMENT),
    (Flaw.AFTER_FIRST, Law.DONE_IS_DONE, PAYMENT),
    (Flaw.AFTER_FIRST, Law.TRUE_RECORD, PAYMENT),
    (Flaw.UNKNOWN_IS_FAILED, Law.TRUE_RECORD, PAYMENT),
    (Flaw.REPEATS, Law.ONCE_PER_ATTEMPT, PAYMENT),
    (Flaw.REPEATS, Law.LANDS_ONCE, PAYMENT),
    (Flaw.KEY_PER_EPOCH, Law.LANDS_ONCE, NOTE),
    (Flaw.OLD_APPROVAL, Law.ONE_USE, REFUND),
    (Flaw.OLD_APPROVAL, Law.ONCE_PER_ATTEMPT, REFUND),
    (Flaw.EARLY_USE, Law.ONE_USE, REFUND),
    (Flaw.NO_BUDGET, Law.OWNER_ACTS, PAYMENT),
    (Flaw.NO_BUDGET, Law.LANDS_ONCE, CANCELLED),
    (Flaw.NO_BUDGET, Law.END_IS_END, CANCELLED),
    (Flaw.NO_BUDGET_AGAIN, Law.OWNER_ACTS, NOTE),
    (Flaw.NO_BUDGET_AGAIN, Law.LANDS_ONCE, SHIPMENT),
    (Flaw.BUDGET_FROM_REPLY, Law.OWNER_ACTS, PAYMENT),
    (Flaw.BUDGET_FROM_REPLY, Law.LANDS_ONCE, CANCELLED),
    (Flaw.BUDGET_FROM_RESEND, Law.OWNER_ACTS, PAYMENT),
    (Flaw.NO_RENEWAL, Law.OWNER_ACTS, PAYMENT),
    (Flaw.NO_RENEWAL, Law.LANDS_ONCE, CANCELLED),
    (Flaw.NO_PATIENCE, Law.OWNER_ACTS, PAYMENT),
    (Flaw.NO_PATIENCE, Law.END_IS_END, CANCELLED),
    (Flaw.NO_EXPIRY, Law.ENDS, PAYMENT._replace(left=Left(1))),
    (Flaw.TELLS_FIRST, Law.TOLD_LAST, PAYMENT),
]


def explored(setting: Setting, laws: Sequence[Law]) -> Exploration[State, Step]:
    """Everything that can happen in a setting, up to the first broken law.

    States are tuples without cycles: the garbage collector would look at a hundred thousand of them in vain.
    """
    gc.disable()
    try:
        return explore(
            initial(setting),
            partial(steps, setting),
            partial(broken, setting, laws),
            lambda state: standing(state.journal).is_ended,
            stuck=Law.ENDS if Law.ENDS in laws else None,
        )
    finally:
        standing.cache_clear()
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "states"), WORLDS)
def test_no_order_of_steps_breaks_a_law(setting: Setting, states: int) -> None:
    found = explored(setting, tuple(Law))
    assert found.counterexample is None, f"\n{found.counterexample}"
    assert found.states == states, "docs/explanation/ownership-protocol.md names these numbers"


@pytest.mark.parametrize(("flaw", "law", "setting"), BROKEN, ids=lambda given: getattr(given, "name", None))
def test_a_rule_that_is_left_out_breaks_a_law(flaw: Flaw, law: Law, setting: Setting) -> None:
    found = explored(setting._replace(flaw=flaw), (law,)).counterexample
    assert found is not None
    assert found.law == law


def test_every_flaw_is_tried_and_every_law_can_break() -> None:
    assert {flaw for flaw, _, _ in BROKEN} == set(Flaw)
    assert {law for _, law, _ in BROKEN} == set(Law)


def test_a_counterexample_tells_its_story_step_by_step() -> None:
    found = explored(PAYMENT._replace(flaw=Flaw.NO_BUDGET), (Law.OWNER_ACTS,)).counterexample
    story = """\
broken: an action that is not read-only is dispatched only by the newest owner
  1. owner 0: reads the journal and sends (1:claimed by owner 0, epoch 1; behind row 0)
  2. owner 0: the store takes its commit (committed)
  3. owner 0: hears from the store (committed)
  4. owner 0: goes on (2:before 0.1; behind row 1)
  5. owner 0: the store takes its commit (committed)
  6. the lease expires
  7. owner 0: hears from the store (committed)
  8. owner 1: reads the journal and sends (3:claimed by owner 1, epoch 2; behind row 2)
  9. owner 1: the store takes its commit (committed)
 10. owner 0: acts (it lands and says so)
     the journal has 1:claimed by owner 0, epoch 1; 2:before 0.1; 3:claimed by owner 1, epoch 2 - the outside world has 0.1"""
    assert str(found) == story


async def follow(setting: Setting, walk: Walk) -> None:
    real = RealRun(setting)
    try:
        async with asyncio.timeout(120):
            for move in walk:
                await real.follow(*move)
    finally:
        await real.stop()


async def follow_all(setting: Setting, walks: Iterable[Walk]) -> int:
    """Walk the real code along; how many walks there were."""
    count = 0
    for walk in walks:
        try:
            await follow(setting, walk)
        except Exception as error:
            error.add_note(f"{setting}\n{told(walk)}")
            raise
        count += 1
    return count


@pytest.mark.parametrize(
    ("setting", "length", "walks"), [(PAYMENT, 7, 3_200), (CANCELLED, 7, 1_000), (REFUND, 8, 1_000)]
)
async def test_the_real_ledger_agrees_on_every_short_walk(setting: Setting, length: int, walks: int) -> None:
    assert await follow_all(setting, all_walks(setting, length)) > walks


LONG = [
    PAYMENT._replace(left=Left(2, 2)),
    NOTE,
    SHIPMENT,
    Setting((READ_ONLY, UNREPEATABLE, IDEMPOTENT)),
    REFUND._replace(left=Left(2, 1, 1)),
    CANCELLED._replace(owners=3, left=Left(2, 1, 1)),
]


@pytest.mark.parametrize("setting", LONG)
async def test_the_real_ledger_agrees_on_long_walks(setting: Setting) -> None:
    assert await follow_all(setting, (random_walk(setting, seed) for seed in range(100))) == 100


def test_the_long_walks_take_every_kind_of_step() -> None:
    walks = [random_walk(setting, seed) for setting in LONG for seed in range(100)]
    assert {move.step.what for walk in walks for move in walk} == set(What)


@pytest.mark.parametrize(
    "flaw",
    [Flaw.NO_FENCE, Flaw.OLD_RECEIPTS, Flaw.SHARED_TOKENS, Flaw.SAME_EPOCH, Flaw.NEW_TOKEN, Flaw.NEW_HEAD],
    ids=lambda flaw: flaw.name,
)
async def test_the_real_ledger_does_not_go_along_with_a_flaw(flaw: Flaw) -> None:
    setting = PAYMENT._replace(flaw=flaw)
    found = explored(setting, tuple(Law)).counterexample
    assert found is not None
    walk = retraced(setting, found.steps)
    await follow(setting, walk[:-1])
    with pytest.raises(AssertionError):
        await follow(setting, walk)
