"""Use case 18: what the model was shown is on record: the manifest of every call, the digest of what was condensed."""

from __future__ import annotations

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    RecoveryStrategy,
    RunAgentInput,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentContext,
    AgentEvidence,
    AgentEvidenceKind,
    ContextPack,
    ContextPackRole,
    ContextTokenBudget,
)
from pilotage.context import SummariseOldTurns
from pilotage.models import OfflineModel
from pilotage.runtime import AgentRuns

CONTEXT = AgentContext([ContextPack("rules", "Never tear a page.", "handbook", ContextPackRole.INSTRUCTION)])


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
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


async def evidence(ports: tuple[object, ...]) -> tuple[AgentEvidence, ...]:
    """Three questions of a conversation; what was said before the last one is too much to be shown in full."""
    async with Application("library").add(Reader, OfflineModel, *ports).load_plugins() as app:
        runs = app.get(AgentRuns)
        found: tuple[AgentEvidence, ...] = ()
        for number in (1, 2, 3):
            given = RunAgentInput(f"page {number}", f"page number={number}", "reading", context=CONTEXT)
            run = await runs.start(Reader, given)
            assert f"page {number}: word" in (await run.result()).output
            found += await runs.evidence(run.id)
    assert all(each.digest for each in found if "action_id" in each.payload)
    return found


async def test_every_model_call_has_a_manifest_that_names_its_sources(ports: tuple[object, ...]) -> None:
    calls = [each for each in await evidence(ports) if each.kind is AgentEvidenceKind.MODEL]
    assert calls
    first = calls[0].payload["manifest"]
    assert isinstance(first, dict)
    assert {each["pack_id"]: each["source"] for each in first["entries"][:1]} == {"rules": "handbook"}


async def test_what_was_condensed_is_a_digest_that_points_to_its_manifest(
    ports: tuple[object, ...],
) -> None:
    found = await evidence(ports)
    manifests = [each for each in found if each.kind is AgentEvidenceKind.CONTEXT_MANIFEST]
    digests = [each for each in found if each.kind is AgentEvidenceKind.CONTEXT_DIGEST]
    assert manifests
    assert digests
    assert all(each.manifest_ref for each in digests)
    assert {each.manifest_ref for each in digests} <= {each.manifest_ref for each in manifests}
