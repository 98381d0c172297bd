"""Whether a model can do what an agent asks of it: checked when an application starts, or a caller brings a model.

What can be made up for (structured output, several calls at once, a long context) is no problem; what cannot, is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pilotage.agent.context import ContextTokenBudget
from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.container.names import enumerate_names
from pilotage.errors import AgentModelConfigurationError, Problem


def misfits(
    definition: AgentDefinition, tools: Sequence[str], capability: ModelCapability
) -> Iterator[Problem]:
    """What stands against driving an agent with a model; `tools` are the names of those that it offers."""
    agent, model = definition.target.__name__, repr(capability.model)
    if tools and not capability.tools:
        yield Problem(
            "agent_model_without_tools",
            f"{agent} offers {enumerate_names([repr(each) for each in tools])} to {model}, which cannot call tools.",
            "Bind a model that can: app.bind(IAgentModel, ...), or offer no tools.",
            family=AgentModelConfigurationError,
        )
    budget, length = definition.spec.context_budget, capability.context_tokens
    reserved = (budget.reserved_output_tokens or 0) if budget is not None else 0
    if length is not None and reserved >= length:
        yield Problem(
            "agent_context_too_short",
            f"{agent} keeps {reserved} tokens for the answer, and {model} takes {length} in all.",
            "Reserve fewer (AgentExecutionSpec.context_budget), or bind a model with a longer context.",
            family=AgentModelConfigurationError,
        )


def models_held_by(instance: object) -> list[IAgentModel]:
    """The models that an agent injects, in the order of its attributes."""
    return [each for each in vars(instance).values() if isinstance(each, IAgentModel)]


def within_length(budget: ContextTokenBudget, models: Iterable[IAgentModel]) -> ContextTokenBudget:
    """A budget that no model is too short for; one without a bound of its own takes theirs."""
    lengths = [model.capability.context_tokens for model in models]
    bounds = [each for each in (budget.max_tokens, *lengths) if each is not None]
    return replace(budget, max_tokens=min(bounds, default=None))
