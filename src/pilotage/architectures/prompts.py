"""Prompts of loops: templates with named places, which an application may replace. Pure.

A template is text with places like `{draft}`. Which places a prompt may use, and what the model must return for it, is
its `PromptGuide`. A brace that is no place is written twice. The filled-in values are never read as templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from string import Formatter
from typing import TypeAlias

from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.values import value


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
    """Return the prompt with its places filled in; a place may be left out of the template, or stand there twice."""
    return "".join(text + ("" if place is None else str(given[place])) for text, place in _parts(template))


@lru_cache(maxsize=512)
def _parts(template: str) -> tuple[tuple[str, str | None], ...]:
    """Return the texts of a template, each with the place behind it; raise `ValueError` if one is no plain name."""
    found: list[tuple[str, str | None]] = []
    for text, place, form, conversion in Formatter().parse(template):
        if place is not None and (form or conversion or not place.isidentifier()):
            raise ValueError(f"{{{place}}} is more than a name")
        found.append((text, place))
    return tuple(found)
