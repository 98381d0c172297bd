"""How much clients may ask of this process at once, and from where browsers may."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

PREFIX = "PILOTAGE_HTTP_"


@value
class HttpSettings:
    """Bounds of the routes.

    `max_body_bytes`, `max_body_depth`     how long a body is, and how deeply its JSON is nested
    `max_streams`                          streams that are open in this process
    `max_streams_per_principal`            ... and for one principal
    `heartbeat_seconds`                    the time between two signs of life in a stream
    `shutdown_seconds`                     how long streams and actions may take to end when the server stops
    `allowed_origins`                      from which other sites pages may open WebSockets: `https://shop.example`
    """

    max_body_bytes: int = 1_000_000
    max_body_depth: int = 100
    max_streams: int = 1_000
    max_streams_per_principal: int = 100
    heartbeat_seconds: float = 15.0
    shutdown_seconds: float = 10.0
    allowed_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            max_body_bytes=self.max_body_bytes,
            max_body_depth=self.max_body_depth,
            max_streams=self.max_streams,
            max_streams_per_principal=self.max_streams_per_principal,
            heartbeat_seconds=self.heartbeat_seconds,
            shutdown_seconds=self.shutdown_seconds,
        )
        object.__setattr__(self, "allowed_origins", tuple(map(_origin, self.allowed_origins)))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> HttpSettings:
        """The settings in PILOTAGE_HTTP_MAX_BODY_BYTES and so on; origins are separated by commas.

        Raises:
            AgentDefinitionError: a variable is no positive number, or no origin.
        """
        given: dict[str, Any] = {}
        for field, read in _READERS.items():
            name = PREFIX + field.upper()
            text = environ.get(name, "").strip()
            try:
                if text:
                    given[field] = read(text)
            except ValueError as error:
                raise AgentDefinitionError(f"{name} is {text!r}. Use a positive number.") from error
        return cls(**given)


def _origins(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


_READERS: Mapping[str, Callable[[str], object]] = {
    "max_body_bytes": int,
    "max_body_depth": int,
    "max_streams": int,
    "max_streams_per_principal": int,
    "heartbeat_seconds": float,
    "shutdown_seconds": float,
    "allowed_origins": _origins,
}


def _origin(text: str) -> str:
    scheme, separator, rest = text.lower().rstrip("/").partition("://")
    if scheme not in ("http", "https") or not separator or not rest or "/" in rest or "*" in rest:
        raise AgentDefinitionError(
            f"HttpSettings.allowed_origins has {text!r}. Write scheme and host: 'https://shop.example'."
        )
    return f"{scheme}://{rest}"
