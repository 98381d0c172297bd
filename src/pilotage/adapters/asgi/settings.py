"""Settings of the HTTP layer: limits of bodies and streams, heartbeats, shutdown, allowed origins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pilotage.adapters.asgi.origins import checked_origins
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

PREFIX = "PILOTAGE_HTTP_"


@value
class HttpSettings:
    """Limits of routes.

    `max_body_bytes`, `max_body_depth`     length of a body, and nesting of its JSON
    `max_streams`                          open streams of the application in this process
    `max_streams_per_principal`            ... and of one principal
    `heartbeat_seconds`                    time between two heartbeats of a stream
    `shutdown_seconds`                     how long streams and actions may take to end when the server stops
    `allowed_origins`                      other sites whose pages may send requests: `https://shop.example`
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
        origins = checked_origins("HttpSettings.allowed_origins", self.allowed_origins)
        object.__setattr__(self, "allowed_origins", origins)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> HttpSettings:
        """Return the settings in PILOTAGE_HTTP_MAX_BODY_BYTES and so on; origins are separated by commas.

        Raises:
            AgentDefinitionError: a variable is no positive number, or no origin.
        """
        given = numbers_in(environ, PREFIX, _NUMBERS)
        return cls(**given, allowed_origins=origins_in(environ, PREFIX))


_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "max_body_bytes": int,
    "max_body_depth": int,
    "max_streams": int,
    "max_streams_per_principal": int,
    "heartbeat_seconds": float,
    "shutdown_seconds": float,
}


def numbers_in(
    environ: Mapping[str, str], prefix: str, readers: Mapping[str, Callable[[str], float]]
) -> dict[str, Any]:
    """Return the numbers that the environment has, by the name of the setting.

    Raises:
        AgentDefinitionError: a variable is no number.
    """
    given: dict[str, Any] = {}
    for field, read in readers.items():
        name = prefix + field.upper()
        text = environ.get(name, "").strip()
        try:
            if text:
                given[field] = read(text)
        except ValueError as error:
            raise AgentDefinitionError(f"{name} is {text!r}. Use a positive number.") from error
    return given


def origins_in(environ: Mapping[str, str], prefix: str) -> tuple[str, ...]:
    """Return the origins that the environment allows, which are separated by commas."""
    texts = environ.get(f"{prefix}ALLOWED_ORIGINS", "").split(",")
    return tuple(each.strip() for each in texts if each.strip())
