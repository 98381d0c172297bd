"""The check of a run's output: the guard of the application, then those that the agent names, with their evidence."""

from __future__ import annotations

from enum import StrEnum

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.handlers import AgentOutputGuardProfile, IAgentOutputGuard
from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, text_digest, to_json_value
from pilotage.runtime.door.run import Run


class GuardVerdict(StrEnum):
    """The verdict of the guards of a profile on an output."""

    PASSED = "passed"
    CHANGED = "changed"
    REFUSED = "refused"


class OutputCheck:
    """Checks the output of one attempt with all its guards; one that breaks refuses the output."""

    def __init__(
        self, run: Run, guard: IAgentOutputGuard | None, profile: AgentOutputGuardProfile | None
    ) -> None:
        self._run = run
        self._guard = guard
        self._profile = () if profile is None else profile.guards
        self._verdict: GuardVerdict | None = None

    async def checked(self, output: object) -> object:
        """Return the output as the guards let it pass.

        Raises:
            AgentOutputGuardError: it must not leave.
        """
        given = to_json_value(output)
        passed = given if self._guard is None else await self._passed(self._guard, given)
        if self._profile:
            passed = await self._passed_by_profile(passed)
        return output if passed == given else passed

    def record(self) -> None:
        """Add evidence of the verdict of the agent's guards, if they were asked."""
        if self._verdict is None:
            return
        ledger, run_id = self._run.ledger, self._run.id
        payload: JsonObject = {
            "kind": "output_guard_profile",
            "profile": self._run.source.definition.spec.output_guard,
            "guards": [type(guard).__name__ for guard in self._profile],
            "verdict": self._verdict.value,
        }
        ledger.add_evidence(
            AgentEvidence(
                f"{run_id}:output_guard_profile@{ledger.epoch}",
                run_id,
                AgentEvidenceKind.OUTPUT_GUARD,
                payload,
                summary=f"the output guards of the agent: {self._verdict.value}",
                digest=text_digest(canonical_json(payload)),
            )
        )

    async def _passed_by_profile(self, given: JsonValue) -> JsonValue:
        self._verdict, passed = GuardVerdict.REFUSED, given
        for guard in self._profile:
            passed = await self._passed(guard, passed)
        self._verdict = GuardVerdict.PASSED if passed == given else GuardVerdict.CHANGED
        return passed

    async def _passed(self, guard: IAgentOutputGuard, output: JsonValue) -> JsonValue:
        try:
            return await guard.check(self._run.context, output)
        except AgentOutputGuardError:
            raise
        except Exception as error:
            raise AgentOutputGuardError(f"the output guard failed ({type(error).__name__})") from error
