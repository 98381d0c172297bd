"""Choosing a loop, word for word as users write it; the names it uses are defined here."""

from __future__ import annotations

from decimal import Decimal

from pilotage import Agent, AgentExecutionLimits, AgentExecutionSpec
from pilotage.architectures import Supervisor


@Agent
class Researcher:
    """Find facts."""


@Agent
class Writer:
    """Write two pages."""


@Agent(spec=AgentExecutionSpec(architecture=Supervisor(workers={"research": Researcher, "write": Writer}),
                               limits=AgentExecutionLimits(max_tokens=50_000, max_cost=Decimal("0.50"), timeout_seconds=600)))
class ReportDesk:
    """Produce a two-page report."""
