"""What the offline model says to commands that no tool carries out. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.models.offline.choosing import OfferedTool
from pilotage.models.offline.grammar import Command
from pilotage.models.offline.transcript import Situation
from pilotage.models.offline.wording import greeting, introduced, not_followed, not_understood, shown_as_it_is
from pilotage.models.offline.words import ARTICLES, Verb


def talk(command: Command, tools: Sequence[OfferedTool], situation: Situation) -> str:
    """An answer without any tool: what the rules know by themselves, or that they know nothing."""
    if command.is_negated:
        return not_followed(command)
    about = " ".join(word.text for word in command.words if word.plain not in ARTICLES and not word.key)
    match command.verb:
        case Verb.GREET:
            return _greeted(about, tools)
        case Verb.HELP:
            return introduced(tools, situation.instructions)
        case Verb.EXPLAIN if not (about and situation.shown):
            return introduced(tools, situation.instructions)
        case Verb.THANKS:
            return "You are welcome."
        case Verb.REMEMBER:
            return "No tool here can remember. I see it as long as this conversation goes on, and no longer."
        case Verb.RECALL:
            return _recalled(about, situation)
        case Verb.STATUS:
            return _status(tools, situation)
        case _ if situation.shown:
            return shown_as_it_is(situation.shown)
        case _:
            return not_understood(command, tools)


def _greeted(about: str, tools: Sequence[OfferedTool]) -> str:
    return greeting(about) if about else f"Good day.\n{introduced(tools)}"


def _recalled(about: str, situation: Situation) -> str:
    wanted = about.lower()
    found = [said for said in situation.earlier if wanted in said.lower()]
    if not found:
        return "Nothing in this conversation is about that, and no tool here can recall anything."
    return "In this conversation you said:\n" + "\n".join(f"- {said}" for said in found)


def _status(tools: Sequence[OfferedTool], situation: Situation) -> str:
    return (
        f"Nothing is going on. Earlier messages of yours: {len(situation.earlier)}; calls made for them: "
        f"{situation.calls_so_far}; tools on offer: {len(tools)}."
    )
