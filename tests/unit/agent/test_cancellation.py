"""Cancellation: the states it passes and hooks that fail, hang or misbehave."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.agent.cancellation import (
    AgentCancellationCleanupCallable,
    AgentCancellationCleanupReport,
    AgentCancellationCleanupResult,
    AgentCancellationCleanupTask,
    AgentCancellationRequest,
    AgentCancellationTargetKind,
    begin_agent_cancellation,
    complete_agent_cancellation,
    run_agent_cancellation_cleanup,
)
from pilotage.agent.evidence import AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.errors import AgentDefinitionError, AgentMemoryError

TOOL = AgentCancellationTargetKind.TOOL_EXECUTION
SIGNAL = AgentSignal(
    "s-1", "run-1", AgentSignalKind.CANCEL, {"reason": "wrong branch", "requested_by": "ada"}
)
A_MOMENT = 0.01
FOREVER = 60.0


def run_in(situation: AgentSituation) -> AgentState:
    return AgentState(
        "run-1", "Bank", situation.status, situation.transition, situation.reason, metadata={"kept": True}
    )


RUNNING = run_in(AgentSituation.RUNNING)


def succeeded(ref: str) -> AgentCancellationCleanupResult:
    return AgentCancellationCleanupResult.succeeded(target_kind=TOOL, target_ref=ref)


def failed(ref: str, code: str, message: str) -> AgentCancellationCleanupResult:
    return AgentCancellationCleanupResult.failed(
        target_kind=TOOL, target_ref=ref, error_code=code, message=message
    )


def hook(ref: str, cleanup: AgentCancellationCleanupCallable) -> AgentCancellationCleanupTask:
    return AgentCancellationCleanupTask(TOOL, ref, cleanup)


def raising(error: BaseException) -> AgentCancellationCleanupCallable:
    async def cleanup(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        raise error

    return cleanup


async def stop_quickly(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
    return succeeded(request.target_ref)


async def hang(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
    await asyncio.Event().wait()
    return succeeded(request.target_ref)


def report(*outcomes: AgentCancellationCleanupResult) -> AgentCancellationCleanupReport:
    return AgentCancellationCleanupReport("run-1", "s-1", outcomes)


SKIPPED = AgentCancellationCleanupResult.skipped(target_kind=TOOL, target_ref="b", reason="ended already")


@pytest.mark.parametrize(
    "situation",
    [
        AgentSituation.CREATED,
        AgentSituation.RUNNING,
        AgentSituation.WAITING_FOR_APPROVAL,
        AgentSituation.RECOVERY_REQUIRED,
        AgentSituation.CANCELLING,
    ],
)
def test_a_run_that_has_not_ended_can_be_cancelled(situation: AgentSituation) -> None:
    state = begin_agent_cancellation(run_in(situation), SIGNAL)
    assert (state.status, state.transition, state.reason) == AgentSituation.CANCELLING.value
    assert state.metadata == {
        "kept": True,
        "cancellation_signal_id": "s-1",
        "cancellation_reason": "wrong branch",
        "cancellation_requested_by": "ada",
    }


def test_a_signal_without_words_cancels_too() -> None:
    signal = AgentSignal("s-1", "run-1", AgentSignalKind.CANCEL, {"reason": 7})
    metadata = begin_agent_cancellation(RUNNING, signal).metadata
    assert (metadata["cancellation_reason"], metadata["cancellation_requested_by"]) == (None, None)


@pytest.mark.parametrize(
    ("outcomes", "situation"),
    [
        ((), AgentSituation.CANCELLED),
        ((succeeded("a"), SKIPPED), AgentSituation.CANCELLED),
        ((succeeded("a"), failed("b", "io", "stuck")), AgentSituation.CANCELLATION_CLEANUP_FAILED),
    ],
)
def test_the_report_decides_how_a_cancelled_run_ends(
    outcomes: tuple[AgentCancellationCleanupResult, ...], situation: AgentSituation
) -> None:
    state = complete_agent_cancellation(run_in(AgentSituation.CANCELLING), report(*outcomes))
    assert (state.status, state.transition, state.reason) == situation.value
    assert state.metadata["cancellation_cleanup"] == report(*outcomes).to_payload()


def test_a_request_carries_the_words_of_its_signal() -> None:
    request = AgentCancellationRequest.from_signal(
        state=RUNNING, signal=SIGNAL, target_kind=TOOL, target_ref="a", metadata={"k": 1}
    )
    assert request.to_payload() == {
        "state_id": "run-1",
        "signal_id": "s-1",
        "target_kind": "tool_execution",
        "target_ref": "a",
        "reason": "wrong branch",
        "requested_by": "ada",
        "metadata": {"k": 1},
    }


def test_a_report_is_a_record_of_the_run() -> None:
    item = report(failed("a", "io", "stuck"))
    payload = {
        "state_id": "run-1",
        "signal_id": "s-1",
        "cleanup_succeeded": False,
        "outcomes": (
            {
                "target_kind": "tool_execution",
                "target_ref": "a",
                "status": "failed",
                "reason": None,
                "error_code": "io",
                "message": "stuck",
                "metadata": {},
            },
        ),
    }
    assert item.failed_outcomes == item.outcomes
    assert item.to_evidence_candidate("stopped") == AgentEvidenceCandidate(
        AgentEvidenceKind.CANCELLATION, payload, "stopped"
    )


async def test_hooks_run_at_once_and_are_reported_in_the_order_of_their_tasks() -> None:
    second_began = asyncio.Event()

    async def wait_for_the_second(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        await second_began.wait()
        return succeeded(request.target_ref)

    async def be_the_second(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        second_began.set()
        return succeeded(request.target_ref)

    tasks = [hook("first", wait_for_the_second), hook("second", be_the_second)]
    done = await run_agent_cancellation_cleanup(
        state=RUNNING, signal=SIGNAL, tasks=tasks, deadline_seconds=FOREVER
    )
    assert done == report(succeeded("first"), succeeded("second"))


async def test_no_hooks_are_a_good_cleanup() -> None:
    done = await run_agent_cancellation_cleanup(state=RUNNING, signal=SIGNAL, tasks=[])
    assert done == report()
    assert done.cleanup_succeeded


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConnectionResetError("peer left"), "connection_reset_error", "peer left"),
        (ValueError(), "value_error", "ValueError"),
        (TimeoutError("its own"), "timeout_error", "its own"),
        (AgentMemoryError(), "agent_memory_error", "The agent's memory failed."),
        (
            asyncio.CancelledError(),
            "cancellation_cleanup_cancelled",
            "The cleanup was cancelled from within.",
        ),
    ],
)
async def test_a_hook_that_raises_is_a_failed_outcome_and_the_others_go_on(
    error: BaseException, code: str, message: str
) -> None:
    done = await run_agent_cancellation_cleanup(
        state=RUNNING, signal=SIGNAL, tasks=[hook("bad", raising(error)), hook("good", stop_quickly)]
    )
    assert done.outcomes == (failed("bad", code, message), succeeded("good"))


async def test_a_hook_that_answers_for_another_target_failed() -> None:
    async def answer_for_another(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        return succeeded("other")

    done = await run_agent_cancellation_cleanup(
        state=RUNNING, signal=SIGNAL, tasks=[hook("a", answer_for_another)]
    )
    assert done.outcomes == (
        failed(
            "a",
            "agent_definition_error",
            "The cleanup of tool_execution 'a' answered for tool_execution 'other'. "
            "Answer with the target of the request.",
        ),
    )


async def test_a_hook_past_the_deadline_is_cancelled_and_failed() -> None:
    was_cancelled = asyncio.Event()

    async def note_cancellation(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        try:
            return await hang(request)
        finally:
            was_cancelled.set()

    done = await run_agent_cancellation_cleanup(
        state=RUNNING,
        signal=SIGNAL,
        tasks=[hook("slow", note_cancellation), hook("quick", stop_quickly)],
        deadline_seconds=A_MOMENT,
    )
    assert was_cancelled.is_set()
    assert done.outcomes == (
        failed("slow", "cancellation_cleanup_timeout", "The cleanup did not end within 0.01 seconds."),
        succeeded("quick"),
    )


async def test_a_late_hook_failed_even_when_it_answers_its_cancellation_with_success_or_an_error() -> None:
    async def answer_anyway(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        try:
            return await hang(request)
        except asyncio.CancelledError:
            return succeeded(request.target_ref)

    async def break_anyway(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        try:
            return await hang(request)
        except asyncio.CancelledError:
            raise ValueError("late") from None

    done = await run_agent_cancellation_cleanup(
        state=RUNNING,
        signal=SIGNAL,
        tasks=[hook("a", answer_anyway), hook("b", break_anyway)],
        deadline_seconds=A_MOMENT,
    )
    assert [each.error_code for each in done.outcomes] == ["cancellation_cleanup_timeout"] * 2


async def test_a_hook_that_ignores_its_cancellation_does_not_hold_the_cleanup_up() -> None:
    release = asyncio.Event()
    ended = asyncio.Event()

    async def ignore_cancellation(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return succeeded(request.target_ref)

    done = await run_agent_cancellation_cleanup(
        state=RUNNING, signal=SIGNAL, tasks=[hook("stubborn", ignore_cancellation)], deadline_seconds=A_MOMENT
    )
    assert done.outcomes[0].error_code == "cancellation_cleanup_timeout"
    assert not ended.is_set()
    release.set()
    await ended.wait()


async def test_cancelling_the_cleanup_itself_stops_the_hooks() -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    async def note_stop(request: AgentCancellationRequest) -> AgentCancellationCleanupResult:
        began.set()
        try:
            return await hang(request)
        finally:
            stopped.set()

    cleanup = asyncio.create_task(
        run_agent_cancellation_cleanup(state=RUNNING, signal=SIGNAL, tasks=[hook("a", note_stop)])
    )
    await began.wait()
    cleanup.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleanup
    assert stopped.is_set()


async def test_what_is_no_ordinary_exception_is_not_taken_for_an_outcome() -> None:
    class AttemptIsDead(BaseException):
        pass

    with pytest.raises(AttemptIsDead):
        await run_agent_cancellation_cleanup(
            state=RUNNING, signal=SIGNAL, tasks=[hook("a", raising(AttemptIsDead()))]
        )


@pytest.mark.parametrize("tasks", [[], [hook("a", stop_quickly)]])
async def test_a_foreign_signal_is_refused_whether_or_not_there_are_hooks(
    tasks: list[AgentCancellationCleanupTask],
) -> None:
    foreign = AgentSignal("s-1", "run-2", AgentSignalKind.CANCEL)
    with pytest.raises(AgentDefinitionError, match="is for run 'run-2', not 'run-1'"):
        await run_agent_cancellation_cleanup(state=RUNNING, signal=foreign, tasks=tasks)


async def test_a_deadline_must_be_positive() -> None:
    with pytest.raises(AgentDefinitionError, match="deadline_seconds is 0"):
        await run_agent_cancellation_cleanup(state=RUNNING, signal=SIGNAL, tasks=[], deadline_seconds=0)


@pytest.mark.parametrize("status", [status for status in AgentStatus if status is not AgentStatus.CANCELLING])
def test_only_a_run_that_is_being_cancelled_can_be_reported_cancelled(status: AgentStatus) -> None:
    with pytest.raises(AgentDefinitionError, match="its cancellation cannot end"):
        complete_agent_cancellation(AgentState("run-1", "Bank", status), report())
