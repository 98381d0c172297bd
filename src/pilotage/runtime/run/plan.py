"""The plan of an agent's runs: the parts of attempts that follow from the agent and its application alone."""

from __future__ import annotations

from collections.abc import Callable

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.budget import IAgentPricing
from pilotage.agent.ports.observability import IAgentTelemetry
from pilotage.agent.safety_checks import hidden_output
from pilotage.runtime.door.hooks import Hooks
from pilotage.runtime.door.run import Admission, Run
from pilotage.runtime.exposure.modes import AT_ONCE, OPEN_EXPOSURE, Exposure
from pilotage.runtime.exposure.redactor import NO_REDACTOR, Redactor
from pilotage.runtime.run.cancel import Cleanup
from pilotage.runtime.run.ending import EndingPolicy
from pilotage.runtime.services import Services
from pilotage.values import value


@value
class RunPlan:
    """The parts of attempts that follow from their agent and application alone: composed once.

    `redactor` is the one of all runs that have nothing to redact; None where each attempt has its own.
    """

    definition: AgentDefinition
    is_declarative: bool
    redactor: Redactor | None
    exposure: Exposure | None
    """The shared one, likewise."""
    is_context_fitted: bool
    """Whether requests are fitted to their context though the run is ephemeral, and was given none."""
    admission: Admission
    """The admission of effects in a run without a deadline."""
    pricing: IAgentPricing | None
    hooks: Hooks | None
    telemetry: IAgentTelemetry | None
    warns: bool
    """Whether the budget of the application may warn."""
    ending: EndingPolicy


def plan_of(definition: AgentDefinition, services: Services, cleanup: Callable[[Run], Cleanup]) -> RunPlan:
    """Return the plan of an agent's runs in an application; `cleanup` makes the clean-up of a cancelled one.

    Raises:
        PodNotFoundError: the application does not have the output guards that the agent names.
    """
    spec = definition.spec
    is_open = spec.redaction is None and services.secrets is None
    return RunPlan(
        definition=definition,
        is_declarative=definition.is_declarative,
        redactor=NO_REDACTOR if is_open else None,
        exposure=OPEN_EXPOSURE if is_open and spec.effective_exposure_mode in AT_ONCE else None,
        is_context_fitted=spec.effective_context_budget is not None or services.has_context_ports,
        admission=services.admission(definition, has_deadline=False),
        pricing=services.pricing,
        hooks=services.hooks,
        telemetry=services.provided.telemetry,
        warns=services.gate.budget is not None,
        ending=EndingPolicy(
            cleanup,
            services.output_guard,
            hidden_output(definition),
            services.output_guard_profile(definition),
        ),
    )
