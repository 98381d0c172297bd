"""Values as notebooks show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pilotage.agent import AgentState, AgentStateReason, AgentStatus, ModelUsage
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.markdown import code, counted, fenced, summary
from pilotage.runtime import RunResult


@dataclass
class Report:
    title: str


@pytest.mark.parametrize(
    ("content", "block"),
    [
        ("![x](http://evil.example/?q=1)", "```text\n![x](http://evil.example/?q=1)\n```"),
        ("a ```` fence", "`````text\na ```` fence\n`````"),
        (Report("Ports"), '```json\n{\n  "title": "Ports"\n}\n```'),
        (print, "```text\n<built-in function print>\n```"),
    ],
)
def test_a_value_is_shown_in_a_fence_that_it_cannot_leave(content: object, block: str) -> None:
    assert fenced(content) == block


def test_a_line_has_the_parts_that_are_there() -> None:
    parts = ("Greeter", None, counted(1, "turn"), counted(2, "turn"), counted(0, "token"))
    assert summary("completed", parts) == "**completed** · Greeter · 1 turn · 2 turns"
    assert code("a`b") == "`ab`"


def state(status: AgentStatus, **fields: Any) -> AgentState:
    return AgentState("run-1", "Greeter", status, **fields)


RESULTS = [
    (
        RunResult(state(AgentStatus.COMPLETED), "Hi.", ModelUsage(total_tokens=1234), 2, spent=BudgetAmount(tool_calls=1)),
        "**completed** · Greeter · 2 turns · 1 tool call · 1,234 tokens\n\n```text\nHi.\n```",
    ),
    (
        RunResult(
            state(
                AgentStatus.INTERRUPTED, reason=AgentStateReason.APPROVAL_REQUIRED, current_activity="Approve 'pay'?"
            )
        ),
        "**interrupted** · Greeter · approval_required\n\n```text\nApprove 'pay'?\n```",
    ),
    (
        RunResult(state(AgentStatus.FAILED, reason=AgentStateReason.EXECUTION_FAILED), error={"code": "x"}),
        '**failed** · Greeter\n\n```json\n{\n  "code": "x"\n}\n```',
    ),
    (state(AgentStatus.ACTIVE), "**active** · Greeter · `run-1`"),
    (state(AgentStatus.ACTIVE, current_activity="thinking"), "**active** · Greeter · `run-1`\n\n```text\nthinking\n```"),
]  # fmt: skip


@pytest.mark.parametrize(("shown", "markdown"), RESULTS)
def test_a_run_and_its_result_are_a_line_and_blocks(shown: Any, markdown: str) -> None:
    assert shown._repr_markdown_() == markdown
