"""Write docs/architectures/prompts.md: the prompts of the loops with places, replies and defaults."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from pilotage.architectures import (
    ActorCritic,
    Blackboard,
    Debate,
    PlanAndExecute,
    React,
    Reflexion,
    Rewoo,
    Router,
    SelfRefine,
    Supervisor,
    Swarm,
    TreeOfThoughts,
)

PAGE = Path(__file__).parents[1] / "docs" / "architectures" / "prompts.md"
LOOPS: tuple[type[Any], ...] = (
    React,
    Router,
    PlanAndExecute,
    Rewoo,
    Supervisor,
    SelfRefine,
    ActorCritic,
    Reflexion,
    Debate,
    TreeOfThoughts,
    Swarm,
    Blackboard,
)
LEAD = """# The prompts of the loops

Every prompt of a loop is a field with a default, and can be replaced: `SelfRefine(critic_prompt="...")`. A prompt is a
template: a place like `{draft}` is filled in, other braces are written twice. A place may be left out. A place that a
prompt is not given is an error when the loop is made. The reply to a prompt must have the form that is said here,
whatever the words: decisions are forced into their type, decoded strictly and repaired once.

The instructions of the agent, the conversation and the question stand before every prompt that speaks for the agent. A
run that is under way goes on when a prompt is changed: what is recorded stays, and new calls have the new words.
"""


def page() -> str:
    """Return the page: a section for each loop."""
    return "\n".join([LEAD, *(_section(loop) for loop in LOOPS)]).rstrip() + "\n"


def _section(loop: type[Any]) -> str:
    defaults: dict[str, str] = {each.name: each.default for each in fields(loop)}
    lines = [f"## `{loop.__name__}`", ""]
    for name, guide in loop.prompt_guides.items():
        given = ", ".join(f"`{{{place}}}`" for place in guide.given) or "nothing"
        lines += [f"**`{name}`** is given {given}. The reply: {guide.returns}. The default:", ""]
        lines += ["```text", defaults[name], "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
