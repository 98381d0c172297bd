"""Output guards of one agent: named in its spec, applied to answer and stream, recorded as evidence."""

from __future__ import annotations

import pytest
from tests.behaviour.bureau import COMPLETED, DURABLE, Bureau, resumed, started, triple

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    MessageDeltaEvent,
    Pod,
    RunContext,
)
from pilotage.agent import AgentEvidence, AgentOutputGuardProfile, IAgentOutputGuard
from pilotage.agent.evidence import AgentEvidenceKind
from pilotage.agent.ports.persistence import JournalStage
from pilotage.errors import AgentBootstrapError, AgentDefinitionError, AgentOutputGuardError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import AgentRuns
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import ProcessStopped, ScriptedModel, StopBefore, calls, says

KEYS = StreamingRedactionPolicy([StreamingSensitivePattern("key", r"sk-[0-9]{4}", replacement="[KEY]")])


class Refuses(IAgentOutputGuard):
    """Lets nothing pass that has a word."""

    def __init__(self, word: str) -> None:
        self.word = word

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        if self.word in str(output):
            raise AgentOutputGuardError(f"no {self.word}")
        return output


class Signs(IAgentOutputGuard):
    """Adds its name to every answer."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        return f"{output} ({self.name})"


class Breaks(IAgentOutputGuard):
    async def check(self, context: RunContext, output: JsonValue) -> JsonValue:
        raise ConnectionError("away")


@Pod(name="strict")
def strict() -> AgentOutputGuardProfile:
    return AgentOutputGuardProfile([Refuses("promise")])


@Pod(name="signed")
def signed() -> AgentOutputGuardProfile:
    return AgentOutputGuardProfile([Signs("first"), Signs("second")])


@Pod(name="broken")
def broken() -> AgentOutputGuardProfile:
    return AgentOutputGuardProfile([Breaks()])


def guarded(profile: str | None, **spec: object) -> type[object]:
    @Agent(spec=AgentExecutionSpec(name="clerk", recovery=DURABLE, output_guard=profile, **spec))  # type: ignore[arg-type]
    class Clerk:
        """Answer people."""

    return Clerk


PROFILES = (strict, signed, broken)


async def verdicts(runs: AgentRuns, run_id: str) -> list[AgentEvidence]:
    return [each for each in await runs.evidence(run_id) if each.kind is AgentEvidenceKind.OUTPUT_GUARD]


async def events_of(runs: AgentRuns, run_id: str) -> list[AgentEvent]:
    return [event async for event in runs.events(run_id)]


def text_of(events: list[AgentEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, MessageDeltaEvent))


@pytest.mark.parametrize(
    ("profile", "said", "output", "streamed", "verdict"),
    [
        ("strict", "Fine.", "Fine.", "Fine.", "passed"),
        ("strict", "I promise.", None, "", "refused"),
        ("signed", "Fine.", "Fine. (first) (second)", "", "changed"),
        ("broken", "Fine.", None, "", "refused"),
    ],
)
async def test_the_guards_of_a_profile_decide_about_answer_and_stream_and_leave_evidence(
    profile: str, said: str, output: str | None, streamed: str, verdict: str
) -> None:
    agent = guarded(profile)
    async with Bureau().process(agent, None, *PROFILES, model=ScriptedModel([says(said)])) as runs:
        result = await started(runs, agent)
        assert result.output == output
        assert (result.status is AgentStatus.COMPLETED) is (output is not None)
        assert text_of(await events_of(runs, result.state.id)) == streamed
        (found,) = await verdicts(runs, result.state.id)
        assert (found.payload["profile"], found.payload["verdict"]) == (profile, verdict)
        assert said not in str(found)
        assert await runs.verify(result.state.id) > 0


async def test_an_agent_without_a_profile_is_not_guarded_by_one_and_leaves_no_evidence() -> None:
    agent = guarded(None)
    async with Bureau().process(agent, None, *PROFILES, model=ScriptedModel([says("I promise.")])) as runs:
        result = await started(runs, agent)
        assert result.output == "I promise."
        assert await verdicts(runs, result.state.id) == []


async def test_the_guard_of_the_application_looks_first_at_the_answers_of_every_agent() -> None:
    @Pod
    class Everywhere(Signs):
        def __init__(self) -> None:
            super().__init__("everywhere")

    agent, model = guarded("signed"), ScriptedModel([says("Fine.")])
    async with Bureau().process(agent, None, *PROFILES, Everywhere, model=model) as runs:
        result = await started(runs, agent)
        assert result.output == "Fine. (everywhere) (first) (second)"


async def test_a_partial_answer_passes_the_guards_as_well() -> None:
    agent = guarded("strict", limits=AgentExecutionLimits(max_steps=1))
    model = ScriptedModel([calls("note", text="a", content="I promise."), says("Fine.")])
    async with Bureau().process(agent, None, *PROFILES, model=model) as runs:
        result = await started(runs, agent)
        assert result.status is AgentStatus.INTERRUPTED
        assert "promise" not in str(result.output)
        assert "promise" not in text_of(await events_of(runs, result.state.id))


async def test_evidence_of_the_profile_stands_beside_that_of_the_streaming_audit() -> None:
    agent = guarded("strict", redaction=KEYS)
    async with Bureau().process(
        agent, None, *PROFILES, model=ScriptedModel([says("Your key is sk-1234.")])
    ) as runs:
        result = await started(runs, agent)
        assert triple(result.state) == COMPLETED
        kinds = {each.payload["kind"] for each in await verdicts(runs, result.state.id)}
        assert kinds == {"output_guard_profile", "streaming_redaction_audit"}
        assert "sk-1234" not in text_of(await events_of(runs, result.state.id))


async def test_no_crash_records_the_verdict_twice_or_loses_it() -> None:
    agent = guarded("strict")
    commits = 1
    while True:
        bureau, model = Bureau(), ScriptedModel([says("Fine.")])
        run_id, is_stopped = "", False
        try:
            fault = StopBefore(commits)
            async with bureau.process(agent, None, *PROFILES, model=model, fault=fault) as runs:
                handle = await runs.start(agent, "A-17", id="guarded")
                run_id = handle.id
                await handle.result()
        except ProcessStopped:
            is_stopped = True
        if not is_stopped:
            break
        if run_id:
            bureau.clock.advance(600)
            async with bureau.process(agent, None, *PROFILES, model=model.fresh()) as runs:
                result = await resumed(runs, run_id)
                assert result.output == "Fine."
                (found,) = await verdicts(runs, run_id)
                assert found.payload["verdict"] == "passed"
        commits += 1
    assert commits > 2


async def test_another_profile_is_recorded_as_drift() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Fine.")])
    before, after = guarded("strict"), guarded("signed")
    async with bureau.process(before, None, *PROFILES, model=model, fault=StopBefore(2)) as runs:
        handle = await runs.start(before, "A-17")
        with pytest.raises(ProcessStopped):
            await handle.result()
    bureau.clock.advance(600)
    async with bureau.process(after, None, *PROFILES, model=model.fresh()) as runs:
        assert (await resumed(runs, handle.id)).output == "Fine. (first) (second)"
    claims = [row for row in await bureau.rows(handle.id) if row.stage is JournalStage.CLAIMED]
    assert any("drift" in str(row.view) for row in claims)


def test_an_unknown_profile_keeps_the_application_from_starting_and_names_those_there_are() -> None:
    app = Application("desk").add(guarded("strikt"), *PROFILES, ScriptedModel([]))
    (problem,) = [each for each in app.load_plugins().problems() if each.code == "agent_output_guard_unknown"]
    assert str(problem) == (
        "Clerk: it names the output guard 'strikt', and the AgentOutputGuardProfile pods are 'broken', 'signed', "
        "'strict'.\n"
        "Add one pod of that name: @Pod(name='strikt') on a function that returns an AgentOutputGuardProfile; or name "
        "another one in the spec."
    )
    assert problem.family is AgentBootstrapError


def test_without_profiles_a_named_one_is_an_error_too() -> None:
    app = Application("desk").add(guarded("strict"), ScriptedModel([])).load_plugins()
    assert any("there are no AgentOutputGuardProfile pods" in str(each) for each in app.problems())


def test_a_profile_has_guards_and_a_spec_a_name() -> None:
    with pytest.raises(AgentDefinitionError, match="has no guards"):
        AgentOutputGuardProfile([])
    with pytest.raises(AgentDefinitionError, match="output_guard"):
        AgentExecutionSpec(output_guard=" ")
