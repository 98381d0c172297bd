"""The question of a tool to a person: a text with the arguments of a call in it. Pure.

`{name}` stands for an argument, and for nothing else: no attribute, index, conversion or format.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, shortened

_PLACE = re.compile(r"\{([^{}]*)\}")
_LONGEST = 200


def reject_unfit_prompt(label: str, prompt: str, parameters: Collection[str]) -> None:
    """Refuse a question with a place that is no parameter of its tool, naming the function `label`.

    Raises:
        AgentDefinitionError: it has one, or a brace that belongs to no place.
    """
    unknown = [name for name in _PLACE.findall(prompt) if name not in parameters]
    if unknown or "{" in _PLACE.sub("", prompt) or "}" in _PLACE.sub("", prompt):
        names = ", ".join(f"{{{name}}}" for name in parameters) or "none, because it has no parameters"
        raise AgentDefinitionError(
            f"{label}: agent_tool.prompt is {prompt!r}. Write the names of parameters into braces, and nothing else: "
            f"{names}."
        )


def filled_prompt(prompt: str, arguments: JsonObject) -> str:
    """Return the question about a call; an argument that is not given is its default."""
    return _PLACE.sub(lambda place: _shown(arguments, place[1]), prompt)


def _shown(arguments: JsonObject, name: str) -> str:
    if name not in arguments:
        return f"the default {name}"
    given: JsonValue = arguments[name]
    text = given if isinstance(given, str) else canonical_json(given)
    # On one line, so that an argument cannot look like a further part of the question.
    return shortened(" ".join(text.split()), _LONGEST)
