"""The plan of an agent's runs: what they share, and what each of them has for itself."""

from __future__ import annotations

import pytest

from pilotage import Agent, AgentExecutionSpec, Application, OfflineModel
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.permissions import ISecrets
from pilotage.agent.principal import RunContext
from pilotage.agent.spec import StreamingExposureMode
from pilotage.runtime.exposure.modes import OPEN_EXPOSURE
from pilotage.runtime.exposure.redactor import NO_REDACTOR
from pilotage.runtime.run.blueprint import RunPlan, plan_of
from pilotage.runtime.run.cancel import Cleanup
from pilotage.runtime.services import Services
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.safety.fields import SecretRef

POLICY = StreamingRedactionPolicy([StreamingSensitivePattern("token", r"TOKEN-\d+")])


class Vault(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return "sk-12:ab"


@Agent
class Plain:
    """Talk."""


@Agent(spec=AgentExecutionSpec(redaction=POLICY))
class Guarded:
    """Talk."""


@Agent(spec=AgentExecutionSpec(streaming_exposure_mode=StreamingExposureMode.STRICT))
class Strict:
    """Talk."""


async def planned(agent: type[object], *pods: object) -> RunPlan:
    async with (
        Application("plans").add(agent, OfflineModel(), *pods).load_plugins(include=["runtime"]) as app
    ):
        definition = AgentDefinition.get_or_none(agent)
        assert definition is not None
        return plan_of(definition, Services(app), lambda _: Cleanup(RunContext(), lambda *_: "", (), None))


async def test_runs_without_anything_to_redact_share_redactor_and_exposure() -> None:
    plan = await planned(Plain)
    assert plan.redactor is NO_REDACTOR
    assert plan.exposure is OPEN_EXPOSURE


@pytest.mark.parametrize("agent", [Plain, Guarded, Strict])
async def test_with_secrets_every_run_has_its_own(agent: type[object]) -> None:
    plan = await planned(agent, Vault())
    assert plan.redactor is None
    assert plan.exposure is None


async def test_with_a_policy_every_run_has_its_own() -> None:
    plan = await planned(Guarded)
    assert plan.redactor is None
    assert plan.exposure is None


async def test_events_that_are_held_are_not_held_in_a_shared_exposure() -> None:
    plan = await planned(Strict)
    assert plan.redactor is NO_REDACTOR
    assert plan.exposure is None
