"""Texts that loops send to models: prompt templates that an application may replace, outputs as text. Pure.

A template is text with places like `{draft}`. Which places a prompt may use, and what the model must return for it, is
its `PromptGuide`. A brace that is no place is written twice. The filled-in values are never read as templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from string import Formatter
from typing import TypeAlias

from pilotage.agent.messages import ModelMessage, ModelMessageRole, new_message
from pilotage.agent.ports.architecture import AgentSession
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import canonical_json, to_json_value
from pilotage.values import value

_SPEAKERS = {ModelMessageRole.USER: "User", ModelMessageRole.ASSISTANT: "Assistant"}


@value
class PromptGuide:
    """Documentation of one prompt: the places it is given, and the form of the reply to it."""

    given: tuple[str, ...]
    returns: str


PromptGuides: TypeAlias = Mapping[str, PromptGuide]
"""The prompts of a loop, by the name of the field that holds the template."""


def check_prompts(owner: object, guides: PromptGuides) -> None:
    """Raise `AgentDefinitionError` if a prompt of a loop is blank or names a place that it is not given."""
    for name, guide in guides.items():
        template: str = getattr(owner, name)
        reject_blank(owner, **{name: template})
        try:
            places = {place for _, place in _parts(template) if place is not None}
        except ValueError as error:
            raise AgentDefinitionError(
                f"{type(owner).__name__}.{name} is no template: {error}. Write a brace that is no place twice."
            ) from error
        unknown = sorted(places - set(guide.given))
        if unknown:
            known = ", ".join(f"{{{place}}}" for place in guide.given) or "no places"
            raise AgentDefinitionError(
                f"{type(owner).__name__}.{name} has {{{unknown[0]}}}, which it is not given. Use {known}."
            )


def fill(template: str, **given: str | int) -> str:
    """Return the prompt with its places filled in; a template may use a place twice or not at all."""
    return "".join(text + ("" if place is None else str(given[place])) for text, place in _parts(template))


@lru_cache(maxsize=512)
def _parts(template: str) -> tuple[tuple[str, str | None], ...]:
    """Return the texts of a template, each with the place that follows; raise `ValueError` if one is no plain name."""
    found: list[tuple[str, str | None]] = []
    for text, place, form, conversion in Formatter().parse(template):
        if place is not None and (form or conversion or not place.isidentifier()):
            raise ValueError(f"{{{place}}} is more than a name")
        found.append((text, place))
    return tuple(found)


def as_text(output: object) -> str:
    """Return an output as text: a text unchanged, None as an empty text, anything else as JSON."""
    if isinstance(output, str):
        return output
    return "" if output is None else canonical_json(to_json_value(output))


def is_something(output: object) -> bool:
    """Return whether an output has any text."""
    return bool(as_text(output).strip())


def asked(session: AgentSession, prompt: str) -> list[ModelMessage]:
    """Return the messages of a session with the question at their end, unless it is there already."""
    last = session.messages[-1] if session.messages else None
    if not prompt or (last is not None and last.role is ModelMessageRole.USER and last.text == prompt):
        return list(session.messages)
    return [*session.messages, new_message(ModelMessageRole.USER, prompt)]


def briefing(session: AgentSession, prompt: str) -> str:
    """Return a question for a worker without the session's messages: with their text before it, if there are any."""
    earlier = [each for each in session.messages if each.text != prompt]
    earlier_texts = [f"{_SPEAKERS[each.role]}: {each.text}" for each in earlier if each.role in _SPEAKERS]
    if not earlier_texts:
        return prompt
    return "\n".join(["What was said before:", *earlier_texts, "", "The question now:", prompt])


def listed(named: Mapping[str, str]) -> str:
    """Return a list as text: a name and its text on each line."""
    return "\n".join(f"- {name}: {text}" if text else f"- {name}" for name, text in named.items())
