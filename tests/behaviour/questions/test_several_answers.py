"""Answers to several questions that are sent together: all of them are accepted, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal

import pytest
from tests.behaviour.bureau import COMPLETED, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker
from tests.behaviour.test_approval_expiry import SECONDS, AsksForAWhile

from pilotage import ApprovalDecision, Principal
from pilotage.agent import AgentSignal, IAgentSignalRepository, RecoveryDecision
from pilotage.agent.signals import AgentSignalKind
from pilotage.errors import AnswerConflictError, CallerError
from pilotage.runtime import AgentRuns, GivenAnswer
from pilotage.testing import MemorySignalRepository

AGENT = hired()
ADA, BOB = Principal("ada"), Principal("bob")
APPROVE, REJECT = ApprovalDecision.APPROVE, ApprovalDecision.REJECT


async def refunds_twice(worker: Worker) -> object:
    refunds = (worker.desk.refund(Decimal(1)), worker.desk.refund(Decimal(2)))
    return sorted([receipt.amount for receipt in await asyncio.gather(*refunds)])


async def waiting(runs: AgentRuns) -> tuple[str, str, str]:
    """A run that waits for two approvals, and its questions."""
    run_id = (await started(runs, AGENT)).state.id
    one, two = [each.id for each in await runs.questions(run_id)]
    return run_id, one, two


async def open_ids(runs: AgentRuns, run_id: str) -> list[str]:
    return [each.id for each in await runs.questions(run_id)]


async def test_answers_are_accepted_together_and_confirmed_together() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, one, two = await waiting(runs)
        both = [GivenAnswer(one, APPROVE, {"comment": "fine"}), GivenAnswer(two, APPROVE)]
        await runs.answer_all(run_id, [*both, both[0]], resume=False, principal=ADA)
        await runs.answer_all(run_id, both, resume=False, principal=BOB)
        assert [each.decided_by for each in await runs.waiting_answers(run_id)] == ["ada", "ada"]
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        assert await runs.verify(run_id) > 0
    assert sorted(bureau.world.done) == ["refund 1", "refund 2"]


async def test_the_last_answer_lets_the_run_go_on() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, one, two = await waiting(runs)
        await runs.answer(run_id, one, APPROVE)
        await runs.answer_all(run_id, [GivenAnswer(one, APPROVE), GivenAnswer(two, APPROVE)])
        assert runs.is_driven(run_id)
        assert triple((await (await runs.resume(run_id)).result()).state) == COMPLETED


WRONG: Mapping[str, tuple[Callable[[str], GivenAnswer], str]] = {
    "unknown": (lambda one: GivenAnswer(f"{one}0", APPROVE), "waits for no answer"),
    "of another run": (lambda one: GivenAnswer("0" * 32 + ":1", APPROVE), "waits for no answer"),
    "not allowed": (lambda one: GivenAnswer(one, RecoveryDecision.RETRY), "retry"),
    "without its arguments": (lambda one: GivenAnswer(one, ApprovalDecision.MODIFY), "modif"),
    "with wrong arguments": (
        lambda one: GivenAnswer(one, ApprovalDecision.MODIFY, {"modified_payload": {"amount": []}}),
        "amount",
    ),
    "with a claim of authority": (lambda one: GivenAnswer(one, APPROVE, {"decided_by": "cfo"}), "decided_by"),
}


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("wrong", WRONG)
async def test_one_answer_that_is_refused_refuses_all(wrong: str, is_first: bool) -> None:
    bureau, (make, reason) = Bureau(), WRONG[wrong]
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, one, two = await waiting(runs)
        bad, good = make(one), GivenAnswer(two, APPROVE)
        with pytest.raises(CallerError, match=reason) as caught:
            await runs.answer_all(run_id, [bad, good] if is_first else [good, bad])
        assert str(caught.value).startswith(f"of 2 answers, the one to {bad.request_id!r} is refused: ")
        assert str(caught.value).endswith("None was accepted.")
        assert await open_ids(runs, run_id) == [one, two]
        assert await runs.waiting_answers(run_id) == ()
    assert bureau.world.done == []


async def test_answers_that_contradict_each_other_are_none() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, one, two = await waiting(runs)
        answers = [GivenAnswer(two, APPROVE), GivenAnswer(one, APPROVE), GivenAnswer(one, REJECT)]
        with pytest.raises(CallerError, match=f"{one!r} is answered in two ways"):
            await runs.answer_all(run_id, answers)
        assert await open_ids(runs, run_id) == [one, two]


async def test_a_closed_question_refuses_all_and_the_refused_answer_is_evidence() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, one, two = await waiting(runs)
        await runs.reject(two, principal=BOB)
        with pytest.raises(AnswerConflictError) as caught:
            await runs.answer_all(
                run_id, [GivenAnswer(one, APPROVE), GivenAnswer(two, APPROVE)], principal=ADA
            )
        assert (caught.value.request_id, caught.value.decided_by) == (two, "bob")
        assert str(caught.value).startswith(f"of 2 answers, the one to {two!r} is refused: ")
        assert str(caught.value).endswith("None was accepted.")
        assert await open_ids(runs, run_id) == [one]
        refused = [each for each in await runs.evidence(run_id) if each.payload.get("end") == "refused"]
        assert [(each.payload["request_id"], each.payload["decided_by"]) for each in refused] == [
            (two, "ada")
        ]


async def test_an_expired_question_refuses_all() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds_twice, AsksForAWhile(bureau)) as runs:
        run_id, one, two = await waiting(runs)
        bureau.clock.advance(SECONDS + 1)
        answers = [GivenAnswer(one, REJECT), GivenAnswer(two, APPROVE)]
        with pytest.raises(AnswerConflictError, match=f"{two!r} is refused: .*expired at") as caught:
            await runs.answer_all(run_id, answers)
        assert str(caught.value).endswith("None was accepted.")
        assert await open_ids(runs, run_id) == [one, two]


class Overtaken(MemorySignalRepository):
    """Lets somebody else act before the first signals that are stored together."""

    def __init__(self, bureau: Bureau) -> None:
        super().__init__(bureau.store)
        self.before: Callable[[], Awaitable[object]] | None = None

    async def append_all(self, signals: Sequence[AgentSignal]) -> Mapping[str, AgentSignal]:
        before, self.before = self.before, None
        if before is not None:
            await before()
        return await super().append_all(signals)


class OneByOne(Overtaken):
    """A store that cannot write signals together, and is overtaken behind the first one."""

    async def append_all(self, signals: Sequence[AgentSignal]) -> Mapping[str, AgentSignal]:
        first, *rest = signals
        stored = dict(await MemorySignalRepository.append_all(self, [first]))
        if self.before is not None and rest:
            before, self.before = self.before, None
            await before()
        for each in rest:
            stored |= await MemorySignalRepository.append_all(self, [each])
        return stored


async def overtaken(
    signals: Overtaken, bureau: Bureau, by: ApprovalDecision
) -> tuple[str, list[str], list[str]]:
    """Approve both questions while somebody answers the second one; return the error, what is open, what counts."""
    bureau.store.signals = signals
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, one, two = await waiting(runs)

        async def before() -> None:
            await runs.answer(run_id, two, by, resume=False, principal=BOB)

        signals.before = before
        said = ""
        try:
            both = [GivenAnswer(one, APPROVE), GivenAnswer(two, APPROVE)]
            await runs.answer_all(run_id, both, resume=False, principal=ADA)
        except AnswerConflictError as error:
            said = str(error).replace(one, "ONE").replace(two, "TWO")
        counting = [f"{each.decision} by {each.decided_by}" for each in await runs.waiting_answers(run_id)]
        return said, [{one: "ONE", two: "TWO"}[each] for each in await open_ids(runs, run_id)], counting


async def test_another_answer_in_between_refuses_all() -> None:
    bureau = Bureau()
    said, still_open, counting = await overtaken(Overtaken(bureau), bureau, REJECT)
    assert said.startswith("of 2 answers, the one to 'TWO' is refused: question 'TWO' of run ")
    assert said.endswith("None was accepted.")
    assert (still_open, counting) == (["ONE"], ["reject by bob"])


async def test_the_same_answer_in_between_is_confirmed_and_the_rest_accepted() -> None:
    bureau = Bureau()
    assert await overtaken(Overtaken(bureau), bureau, APPROVE) == (
        "",
        [],
        ["approve by ada", "approve by bob"],
    )


async def test_a_store_that_cannot_write_together_says_what_was_accepted() -> None:
    bureau = Bureau()
    said, still_open, counting = await overtaken(OneByOne(bureau), bureau, REJECT)
    assert said.startswith("of 2 answers, the one to 'TWO' is refused: ")
    assert said.endswith("The answers to 'ONE' count; no other does.")
    assert (still_open, counting) == ([], ["approve by ada", "reject by bob"])


async def test_an_answer_that_its_run_refused_leaves_its_question_to_the_next_ones() -> None:
    bureau = Bureau()
    async with bureau.process(AGENT, refunds_twice) as runs:
        run_id, one, two = await waiting(runs)
        wrong = {"request_id": one, "decision": "modify", "modified_payload": {"amount": []}}
        kind = AgentSignalKind.APPROVAL_DECISION
        signals: IAgentSignalRepository = bureau.store.signals
        await signals.append(AgentSignal(f"answer:{one}", run_id, kind, wrong))
        await resumed(runs, run_id)
        assert await open_ids(runs, run_id) == [one, two]
        await runs.answer_all(run_id, [GivenAnswer(one, APPROVE), GivenAnswer(two, APPROVE)], resume=False)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
