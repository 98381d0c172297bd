"""Tools that the caller of a run carries out: which runs can have them, and what a model is offered then."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.agent.tools.deferred import deferred_tool
from pilotage.errors import CallerError
from pilotage.runtime.scoped.tools import Offer
from pilotage.runtime.service.blueprint import blueprint_of
from pilotage.runtime.service.services import Services


def can_wait_for_callers(definition: AgentDefinition) -> bool:
    """Whether runs of an agent can be given tools that their callers carry out."""
    return definition.is_declarative and definition.spec.is_durable


def deferred_tools_of(
    services: Services, definition: AgentDefinition, given: Sequence[ModelToolSpec]
) -> tuple[ModelToolSpec, ...]:
    """The tools that come with an input, each one that a model can be offered.

    Raises:
        AgentDefinitionError: a name or a schema is wrong.
        CallerError: the agent cannot wait for its callers, or has a tool of that name itself.
    """
    if not can_wait_for_callers(definition):
        raise CallerError(
            f"agent {definition.agent_id!r} cannot wait for tools that its caller carries out: that takes runs which "
            "are kept, and a loop that a model drives. Leave the tools out."
        )
    known = set(_names(blueprint_of(definition, services.instance_of(definition), services).offer))
    for tool in given:
        if tool.name in known:
            raise CallerError(
                f"the input brings a tool {tool.name!r}, and there is one of that name already. Rename it."
            )
        known.add(tool.name)
        deferred_tool(tool)
    return tuple(given)


def with_deferred(offer: Offer, tools: Sequence[ModelToolSpec]) -> Offer:
    """The offer with the tools of the caller; where the agent got one of the same name meanwhile, that one counts."""
    known = set(_names(offer))
    more = [deferred_tool(tool).callable for tool in tools if tool.name not in known]
    return Offer.of([*offer.tools, *more], offer.teammates) if more else offer


def _names(offer: Offer) -> list[str]:
    return [tool.name for tool in offer.calling.tools] if offer.calling is not None else []
