"""How much a client may ask of this process at once."""

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
    """Bounds of the routes: bytes of one body, streams side by side, seconds between two signs of life in a stream."""

    max_body_bytes: int = 1_000_000
    max_streams: int = 1_000
    heartbeat_seconds: float = 15.0

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            max_body_bytes=self.max_body_bytes,
            max_streams=self.max_streams,
            heartbeat_seconds=self.heartbeat_seconds,
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> HttpSettings:
        """The settings in PILOTAGE_HTTP_MAX_BODY_BYTES, _MAX_STREAMS and _HEARTBEAT_SECONDS.

        Raises:
            AgentDefinitionError: a variable is no positive number.
        """
        kinds: dict[str, Callable[[str], float]] = {
            "max_body_bytes": int,
            "max_streams": int,
            "heartbeat_seconds": float,
        }
        given: dict[str, Any] = {}
        for field, read in kinds.items():
            name = PREFIX + field.upper()
            text = environ.get(name, "").strip()
            try:
                if text:
                    given[field] = read(text)
            except ValueError as error:
                raise AgentDefinitionError(f"{name} is {text!r}. Use a positive number.") from error
        return cls(**given)
