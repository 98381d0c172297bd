"""Deferred tools: a caller of a run offers them to the model, and carries their calls out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from pilotage.agent.model_request import ModelToolSpec
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.declare import ToolOptions
from pilotage.agent.tools.described import described_tool
from pilotage.agent.tools.metadata import Idempotency, ToolApprovalRequirement
from pilotage.errors import AgentToolDispatchError
from pilotage.jsonvalue import JsonObject
from pilotage.safety.trust import Integrity, TrustLabel

FROM_CALLER = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({"tools of the caller"}))
"""The label of a run whose model reads what a caller wrote about his tools."""
FROM_OWN_PAGE = TrustLabel(Integrity.USER, origins=frozenset({"tools of the user's page"}))
"""The label of a run with tools of a page that the application declares to be its own."""
OWN_PAGE = "pilotage.own_page"
"""The metadata key of a tool of such a page."""


def label_of_deferred(tools: Sequence[ModelToolSpec]) -> TrustLabel:
    """Return the label of a run whose model reads the descriptions of these tools of its caller."""
    labels = (FROM_OWN_PAGE if is_of_own_page(tool) else FROM_CALLER for tool in tools)
    return TrustLabel.join_all(labels)


def is_of_own_page(tool: ModelToolSpec) -> bool:
    """Return whether a tool belongs to a page of the application's own: the user speaks there, and no stranger."""
    return tool.metadata.get(OWN_PAGE) is True


class DeferredTools:
    """The owner of tools that no class of the application has."""


def deferred_tool(spec: ModelToolSpec) -> AgentToolDescriptor:
    """Return a tool that the caller of a run carries out.

    The caller reads the stream anyway, so a call reveals nothing new to the caller: no approval is needed.

    Raises:
        AgentDefinitionError: the name or the schema is wrong.
    """
    return described_tool(
        _carried_out_by_caller,
        ToolOptions(
            name=spec.name,
            description=spec.description,
            idempotency=Idempotency.NON_IDEMPOTENT,
            approval=ToolApprovalRequirement.NOT_REQUIRED,
            reads_untrusted=not is_of_own_page(spec),
            accepts_untrusted=True,
            communicates=False,
        ),
        owner=DeferredTools,
        input_schema=spec.parameters.schema,
        deferred=True,
    )


async def _carried_out_by_caller(arguments: JsonObject) -> Never:
    raise AgentToolDispatchError(
        "a deferred tool is carried out by the caller of the run, not by the application."
    )
