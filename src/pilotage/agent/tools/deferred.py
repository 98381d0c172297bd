"""Tools that the caller of a run brings along and carries out himself: the run waits for what he says came of a call.

Such a tool comes from outside, as do its description and its results: everything about it is untrusted.
"""

from __future__ import annotations

from typing import Never

from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.described import described_tool
from pilotage.agent.tools.metadata import Idempotency, ToolApprovalRequirement
from pilotage.agent.tools.options import ToolOptions
from pilotage.errors import AgentToolDispatchError
from pilotage.jsonvalue import JsonObject
from pilotage.safety.trust import Integrity, TrustLabel

FROM_CALLER = TrustLabel(Integrity.UNTRUSTED, origins=frozenset({"tools of the caller"}))
"""The label of a run whose model reads what a caller wrote about his tools."""


class DeferredTools:
    """The owner of tools that no class of the application has."""


def deferred_tool(spec: ModelToolSpec) -> AgentToolDescriptor:
    """A tool that the caller of a run carries out.

    The caller reads the stream anyway, so nothing leaves with a call that he could not see; nobody has to allow it.

    Raises:
        AgentDefinitionError: the name or the schema is wrong.
    """
    return described_tool(
        _nobody,
        ToolOptions(
            name=spec.name,
            description=spec.description,
            idempotency=Idempotency.NON_IDEMPOTENT,
            approval=ToolApprovalRequirement.NOT_REQUIRED,
            reads_untrusted=True,
            accepts_untrusted=True,
            communicates=False,
        ),
        owner=DeferredTools,
        input_schema=spec.parameters.schema,
        deferred=True,
    )


async def _nobody(arguments: JsonObject) -> Never:
    raise AgentToolDispatchError(
        "a deferred tool is carried out by the caller of the run, not by the application."
    )
