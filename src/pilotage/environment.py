"""Settings in environment variables, read alike by every adapter. An empty variable counts as not set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field
from typing import Any

from pilotage.errors import AgentDefinitionError, StartupError

_SWITCH = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


class Variables:
    """Reads the variables that begin with a prefix; a value that cannot be is an `error` that names its variable."""

    def __init__(
        self, environ: Mapping[str, str], prefix: str, error: type[StartupError] = AgentDefinitionError
    ) -> None:
        self._environ = environ
        self._prefix = prefix
        self._error = error

    def text(self, name: str, usual: str = "") -> str:
        """Return a text without blanks around it."""
        return self._environ.get(self._prefix + name, "").strip() or usual

    def names(self, name: str) -> tuple[str, ...]:
        """Return names that are separated by commas."""
        return tuple(each.strip() for each in self.text(name).split(",") if each.strip())

    def switch(self, name: str, *, usual: bool = False) -> bool:
        """Return whether something is on."""
        text = self.text(name, str(usual)).lower()
        if text not in _SWITCH:
            raise self._error(f"{self._prefix}{name} is {text!r}. Write true or false.")
        return _SWITCH[text]

    def numbers(self, settings: Iterable[Field[object]]) -> dict[str, Any]:
        """Return the positive numbers that are set, by the name of the setting; their variables are in capitals."""
        given: dict[str, Any] = {}
        for setting, read in number_types(settings).items():
            if text := self.text(setting.upper()):
                given[setting] = self._positive(setting.upper(), text, read)
        return given

    def _positive(self, name: str, text: str, read: type[int | float]) -> float:
        try:
            number = read(text)
        except ValueError:
            number = 0
        if not 0 < number < float("inf"):
            kind = "whole number" if read is int else "number"
            raise self._error(f"{self._prefix}{name} is {text!r}. Write a positive {kind}.")
        return number


def number_types(settings: Iterable[Field[object]]) -> dict[str, type[int | float]]:
    """Return the settings that are numbers, with the type of their default."""
    found = {each.name: each.default for each in settings}
    return {
        name: type(usual)
        for name, usual in found.items()
        if isinstance(usual, int | float) and not isinstance(usual, bool)
    }
