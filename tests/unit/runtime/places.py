"""Entering a scope in tests without a run."""

from __future__ import annotations

from collections.abc import Awaitable

from pilotage.agent.tools.declare import IToolCalls
from pilotage.runtime.journal.scope import StepScope, enter_run


class Unused(IToolCalls):
    """Tool calls of a run in which no tool is called."""

    def call(self, tool: object, args: object, kwargs: object) -> object:
        raise AssertionError("no tool is called")

    def invoke(self, tool: object, arguments: object, call_id: str | None = None) -> Awaitable[object]:
        raise AssertionError("no tool is called")


def enter(scope: StepScope) -> None:
    """Make a scope the current one of this task."""
    enter_run(Unused(), scope)
