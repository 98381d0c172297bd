"""Outputs of others as the agent's own: in the type that the agent declares."""

from __future__ import annotations

from pilotage.agent.ports.architecture import AgentSession, Dependencies
from pilotage.jsonvalue import JsonValue


def take_output(session: AgentSession, deps: Dependencies, output: JsonValue) -> None:
    """Make what a worker gave the output of the session.

    Raises:
        AgentStructuredOutputError: the agent declares a type, and it is not of that type.
    """
    session.output = output if deps.output is None else deps.output.decode(output)
