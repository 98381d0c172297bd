"""Which of a server's tools are offered, by what was accepted of them, and how. Pure.

A tool that is new, renamed or shadowed is not offered. One that has changed since it was accepted is offered as it was
accepted, so that runs under way find it, and a person allows each call: the question shows what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.adapters.mcp.catalog import Definition, wire_name
from pilotage.adapters.mcp.settings import McpServerSettings
from pilotage.agent.ports.tool_pins import ToolPin
from pilotage.agent.reach import agent_reaches
from pilotage.agent.tool_review import ToolReview, ToolStanding
from pilotage.agent.tools.definition_text import differences, visible
from pilotage.agent.tools.listed import ListedTool
from pilotage.container.application import Application
from pilotage.values import value

_HONOURS_KEY = "honours_key"
_MOST_LINES = 30


@value
class UsableTool:
    """A tool on offer: as it is called, as models see it, and the question before each call of one that has changed."""

    definition: Definition
    shown: Definition
    question: str | None = None

    @property
    def is_changed(self) -> bool:
        """Whether it has changed since it was accepted."""
        return self.question is not None


def listed_of(definition: Definition) -> ListedTool:
    """Return a definition as it is reviewed: with everything that models, people and calls go by."""
    hints = dict(definition.hints)
    if definition.honours_key:
        hints[_HONOURS_KEY] = True
    return ListedTool(
        definition.name, definition.description, definition.input_schema, definition.output_schema, hints
    )


def offered_tools(
    settings: McpServerSettings, listed: Sequence[Definition], review: ToolReview
) -> tuple[UsableTool, ...]:
    """Return the tools that agents are offered."""
    offered: list[UsableTool] = []
    for definition, reviewed in zip(listed, review.tools, strict=False):
        if reviewed.is_offered:
            offered.append(UsableTool(definition, definition))
        elif reviewed.standing is ToolStanding.CHANGED and reviewed.pin is not None:
            accepted = reviewed.pin.definition
            question = _question(settings, accepted, listed_of(definition))
            offered.append(UsableTool(definition, _definition_of(accepted), question))
    return tuple(offered)


def words_about_off(settings: McpServerSettings, review: ToolReview) -> str | None:
    """Return which tools are off and what to do, for the log; None where none is."""
    if not review.off:
        return None
    tools = ", ".join(f"{visible(each.name)} ({each.standing.value})" for each in review.off)
    remedy = f"accept='{review.digest}'" if review.is_by_code else f"pilotage mcp diff {settings.name}"
    count = "1 tool is" if len(review.off) == 1 else f"{len(review.off)} tools are"
    return f"MCP server {settings.name}: {count} off: {tools}. Review: {remedy}"


@value
class ToolsBeside:
    """The names of the tools of an application, for models; a pod where its servers are started without it.

    With `only_looks` the first use of a server pins nothing.
    """

    names: frozenset[str]
    only_looks: bool = False

    @classmethod
    def of(cls, app: Application, *, only_looks: bool = False) -> ToolsBeside:
        """Return those of an application."""
        names = (tool.schema.name for reach in agent_reaches(app.graph) for tool in reach.tools)
        return cls(frozenset(names), only_looks)


def names_taken(source: str, own: ToolsBeside | None, pins: Sequence[ToolPin]) -> Mapping[str, str]:
    """Return the names of other tools for models: those of the application, and accepted ones of other servers."""
    others = {
        wire_name(f"{pin.source}_", pin.tool): f"server {pin.source!r}"
        for pin in pins
        if pin.source != source
    }
    return {**others, **dict.fromkeys(own.names if own is not None else (), "the application")}


def _question(settings: McpServerSettings, accepted: ListedTool, now: ListedTool) -> str:
    lines = "\n".join(differences(accepted, now, most=_MOST_LINES))
    words = (
        f"Tool {now.name!r} of MCP server {settings.name!r} has changed since it was accepted. Approve this call of it "
        f"as it is now? (All calls: pilotage mcp approve {settings.name} {now.name})\n{lines}"
    )
    # A name in single braces would be filled in with an argument of the call.
    return words.replace("{", "{{").replace("}", "}}")


def _definition_of(accepted: ListedTool) -> Definition:
    return Definition(
        name=accepted.name,
        description=accepted.description,
        input_schema=accepted.input_schema,
        output_schema=accepted.output_schema,
        hints={name: each for name, each in accepted.hints.items() if name != _HONOURS_KEY},
        honours_key=accepted.hints.get(_HONOURS_KEY) is True,
    )
