"""Calls in an application without a store: a run lasts as long as its caller waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mcp_types as types

from pilotage.adapters.mcp_server.catalog import ServedTool, output_type_of
from pilotage.adapters.mcp_server.following import Report, RunProgress
from pilotage.adapters.mcp_server.results import ResultMapping, failure
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStatus
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.runs import AgentRuns
from pilotage.safety.discovery import find_sensitive_fields
from pilotage.safety.guard import guard_json_value


class EphemeralCalls:
    """Calls agents whose runs are not stored; leaving a call ends its run."""

    def __init__(self, runs: AgentRuns) -> None:
        self._runs = runs
        self._results = ResultMapping(runs)

    async def call(
        self, tool: ServedTool, given: Any, principal: Principal, report: Report
    ) -> types.CallToolResult:
        """Return the result of a call.

        Raises:
            AgentDefinitionError: the input does not fit.
        """
        services, definition = self._runs.services, tool.definition
        instance = services.instance_of(definition)
        opened = await self._runs.opened.open(definition, instance, given, principal=principal)
        try:
            progress = RunProgress(report)
            async for event in opened.events():
                await progress.take(event)
            result = await opened.result()
        finally:
            await opened.leave()
        if result.state.status is AgentStatus.INTERRUPTED:
            why = result.state.current_activity or result.interruption_reason or "it waits for a person"
            return failure(
                f"The run was interrupted: {why}. This application stores no runs, so it cannot go on.",
                result.state,
            )
        return await self._results.of(tool, self._as_shown(tool, result, principal), principal)

    def _as_shown(self, tool: ServedTool, result: RunResult, principal: Principal) -> RunResult:
        """Return the result as readers of the run get it: redacted, sensitive parts hidden."""
        redactor = self._runs.services.redactor(tool.definition, principal.tenant)
        output = to_json_value(result.output)
        if sensitive := find_sensitive_fields(output_type_of(tool.definition)):
            output = guard_json_value(output, sensitive)
        return replace(result, output=redactor.json(output))
