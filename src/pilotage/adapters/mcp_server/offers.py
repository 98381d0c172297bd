"""Prompts and resources that an application adds: functions, whose parameters and docstrings are read. Pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pilotage.agent.principal import Principal
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

_PLACE = re.compile(r"\{([a-z_]+)\}")
_PRINCIPAL = "principal"


@value(slots=False)
class McpPrompt:
    """A prompt that clients offer to their users: a function from texts to a text, to media, or to a list of these.

    Its parameters are texts, or choices (`Literal`) that are completed; a parameter `principal` gets the principal.
    """

    render: Callable[..., Any]
    name: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        _fill(self, self.render)
        for name, hint in self.hints.items():
            if hint is not str and not _choices_of(hint):
                raise AgentDefinitionError(
                    f"prompt {self.name!r}: parameter {name!r} is no text. Clients send texts: write {name}: str, or "
                    "Literal[...] of texts."
                )

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """The types of the arguments of clients."""
        return _hints_of(self.render)

    @cached_property
    def required(self) -> frozenset[str]:
        """The arguments without a default."""
        return _required_of(self.render)

    def choices(self, argument: str) -> Sequence[str]:
        """Return the values of an argument that has only some."""
        return _choices_of(self.hints.get(argument))


@value(slots=False)
class McpResource:
    """A resource at an address, or at all addresses of a template: `shop://items/{number}`.

    The function gets the parts of the address as texts, and gives a text, bytes, or a JSON value; None says that there
    is no such thing. A parameter `principal` gets the principal.
    """

    uri: str
    read: Callable[..., Any]
    name: str = ""
    description: str = ""
    media_type: str = "text/plain"
    places: Sequence[str] = field(init=False, default=())

    def __post_init__(self) -> None:
        _fill(self, self.read)
        places = tuple(_PLACE.findall(self.uri))
        object.__setattr__(self, "places", places)
        if "://" not in self.uri or set(places) != set(_hints_of(self.read)):
            raise AgentDefinitionError(
                f"resource {self.uri!r} does not fit its function. Write an address like shop://items/{{number}}, and "
                "a parameter for each part in braces."
            )

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The addresses that it has."""
        parts = _PLACE.split(self.uri)
        written = [
            re.escape(each) if odd % 2 == 0 else f"(?P<{each}>[^/?#]+)" for odd, each in enumerate(parts)
        ]
        return re.compile("".join(written))

    def parts_of(self, uri: str) -> Mapping[str, str] | None:
        """Return the parts of an address; None for one that is not of this resource."""
        found = self.pattern.fullmatch(uri)
        return None if found is None else found.groupdict()


async def called(function: Callable[..., Any], arguments: Mapping[str, str], principal: Principal) -> Any:
    """Return what a function gives for the arguments of a client."""
    own = {_PRINCIPAL: principal} if _PRINCIPAL in inspect.signature(function).parameters else {}
    given = function(**arguments, **own)
    return await given if inspect.isawaitable(given) else given


def _fill(offer: Any, function: Callable[..., Any]) -> None:
    """Fill the name and the description of an offer from its function."""
    if not offer.name:
        object.__setattr__(offer, "name", getattr(function, "__name__", "prompt"))
    if not offer.description:
        object.__setattr__(offer, "description", inspect.getdoc(function) or offer.name)


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function)
    return {
        name: hints.get(name, str) for name in inspect.signature(function).parameters if name != _PRINCIPAL
    }


def _required_of(function: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(function).parameters.items()
    return frozenset(
        name for name, each in parameters if each.default is inspect.Parameter.empty and name != _PRINCIPAL
    )


def _choices_of(hint: Any) -> Sequence[str]:
    return [each for each in get_args(hint) if isinstance(each, str)] if get_origin(hint) is Literal else []
