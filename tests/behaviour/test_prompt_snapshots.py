"""What a model was asked, word for word, as evidence: on request, guarded, and sealed where that hides something."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import pytest
from tests.behaviour.bureau import DURABLE, Bureau, started

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Idempotency,
    Principal,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentEvidence,
    AgentEvidenceKind,
    ContextTokenBudget,
    ISecrets,
    RunContext,
    ToolApprovalRequirement,
)
from pilotage.context import SummariseOldTurns
from pilotage.jsonvalue import canonical_json
from pilotage.runtime import AgentRuns
from pilotage.safety import (
    PII,
    SecretField,
    SecretRef,
    SensitiveField,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
)
from pilotage.testing import ScriptedModel, StopAfter, StopBefore, calls, says

UNGATED = ToolApprovalRequirement.NOT_REQUIRED
BADGES = StreamingRedactionPolicy([StreamingSensitivePattern("badge", r"BADGE-\d+", "[BADGE]")])


class Writer:
    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def write(
        self, to: Annotated[str, SensitiveField(PII.EMAIL)], key: Annotated[str, SecretField()] = ""
    ) -> str:
        """Write to somebody."""
        return f"written with {key}"


@Agent(spec=AgentExecutionSpec(name="open", recovery=DURABLE, prompt_snapshots=True))
class Open:
    """Answer openly."""


@Agent(spec=AgentExecutionSpec(name="silent", recovery=DURABLE))
class Silent:
    """Answer, and keep nothing."""


@Agent(spec=AgentExecutionSpec(name="careful", recovery=DURABLE, prompt_snapshots=True, redaction=BADGES))
class Careful(Writer):
    """Answer carefully."""


class Vault(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return "s3cr3t-key"


async def snapshots(runs: AgentRuns, run_id: str) -> list[AgentEvidence]:
    return [each for each in await runs.evidence(run_id) if each.kind is AgentEvidenceKind.CONTEXT]


async def test_every_request_is_kept_as_it_was_sent() -> None:
    model = ScriptedModel([says("Hello.")])
    async with Bureau().process(Open, model=model) as runs:
        result = await started(runs, Open, "Who is there?")
        (kept,) = await snapshots(runs, result.state.id)
        (prompt,) = await runs.prompts(result.state.id)
    assert (kept.reference, kept.payload["model"]) == ("run/model#1", "scripted")
    assert kept.manifest_ref is not None
    assert kept.payload["prompt"] == prompt
    assert [message["content"] for message in prompt["messages"]] == ["Answer openly.", "Who is there?"]  # type: ignore[index, union-attr]
    assert "sealed" not in kept.payload


async def test_nothing_is_kept_unless_the_agent_asks_for_it() -> None:
    async with Bureau().process(Silent, model=ScriptedModel([says("Hello.")])) as runs:
        result = await started(runs, Silent, "Who is there?")
        assert await snapshots(runs, result.state.id) == []
        assert await runs.prompts(result.state.id) == ()


async def test_what_others_must_not_read_is_sealed_and_secrets_are_nowhere() -> None:
    model = ScriptedModel([calls("write", to="ada@example.org"), says("Done.")])
    bureau = Bureau()
    async with bureau.process(Careful, None, Vault, model=model) as runs:
        result = await started(runs, Careful, "Write to her, my badge is BADGE-1234.")
        first, second = await snapshots(runs, result.state.id)
        _, whole = await runs.prompts(result.state.id)
        _, guarded = await runs.prompts(result.state.id, principal=Principal("auditor"))
    open_text = canonical_json([dict(first.payload["prompt"]), dict(second.payload["prompt"])])  # type: ignore[call-overload]
    for hidden in ("BADGE-1234", "ada@example.org", "s3cr3t-key"):
        assert hidden not in open_text
    assert "[BADGE]" in open_text
    assert guarded == second.payload["prompt"]
    assert "BADGE-1234" in canonical_json(whole)
    assert "ada@example.org" in canonical_json(whole)
    assert "s3cr3t-key" not in canonical_json(whole)
    assert "BADGE-1234" not in repr(second.payload["sealed"])


@Agent(
    spec=AgentExecutionSpec(
        name="reader",
        recovery=DURABLE,
        prompt_snapshots=True,
        context_budget=ContextTokenBudget(max_tokens=700, reserved_output_tokens=100),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Read pages."""

    @agent_tool(effects=ToolEffects.read_only())
    async def page(self, number: int) -> str:
        """Read a page."""
        return f"page {number}: " + "word " * 150


async def test_the_requests_for_summaries_are_kept_too() -> None:
    pages = [calls("page", number=number) for number in (1, 2, 3)]
    model = ScriptedModel([*pages, says("Words."), says("Read.")])
    async with Bureau().process(Reader, model=model) as runs:
        result = await started(runs, Reader, "read three pages")
        assert len(await runs.prompts(result.state.id)) == len(model.requests) == 5


@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_a_crash_loses_no_snapshot_of_a_request_whose_reply_is_kept(
    stop: type[StopBefore | StopAfter],
) -> None:
    for number in range(2, 7):
        bureau, model = Bureau(), ScriptedModel([calls("write", to="ada@example.org"), says("Done.")])
        async with bureau.process(Careful, None, Vault, model=model, fault=stop(number)) as runs:
            handle = await runs.start(Careful, "Write to her.")
            with suppress(BaseException):  # the process dies
                await handle.result()
        bureau.clock.advance(3600)
        async with bureau.process(Careful, None, Vault, model=model.restarted()) as runs:
            if not (await runs.get(handle.id)).is_terminal:
                await (await runs.resume(handle.id)).result()
            assert (await runs.result(handle.id)).output == "Done."
            kept = await snapshots(runs, handle.id)
            # A request that was sent again has two: it was asked twice.
            assert list(dict.fromkeys(each.reference for each in kept)) == ["run/model#1", "run/model#2"], (
                number
            )
            assert len({each.id for each in kept}) == len(kept) <= 3
            await runs.verify(handle.id)
