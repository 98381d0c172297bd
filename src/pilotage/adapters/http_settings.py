"""Settings of the HTTP layer: limits of requests, connections and streams, heartbeats, shutdown, allowed origins.

Outside the layer, because every application that loads its plugins has such settings: nothing here needs an extra.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field, fields
from urllib.parse import SplitResult, urlsplit

from pilotage.checks import reject_not_positive
from pilotage.environment import Variables, number_types
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

PREFIX = "PILOTAGE_HTTP_"
ALLOWED_ORIGINS = "ALLOWED_ORIGINS"
_USUAL_PORTS = {"http": ":80", "https": ":443"}


@value
class HttpSettings:
    """Limits of routes.

    `max_body_bytes`, `max_body_depth`     length of a body, and nesting of its JSON
    `max_upload_bytes`                     length of the body that uploads a file
    `max_streams`                          open streams of the application in this process
    `max_streams_per_principal`            ... and of one principal
    `heartbeat_seconds`                    time between two heartbeats of a stream
    `shutdown_seconds`                     how long streams and actions may take to end when the server stops
    `allowed_origins`                      other sites whose pages may send requests: `https://shop.example`
    `public_docs`                          whether the pages of the OpenAPI description need no authentication

    Of the server that `serve` starts, before authentication:

    `max_connections`                      open connections, WebSockets included
    `max_url_bytes`                        length of a URL
    `max_headers`, `max_header_bytes`      number of headers, and length of all of them
    `header_seconds`                       time to send the head of a request
    `request_seconds`                      time to send the rest of it
    """

    max_body_bytes: int = 1_000_000
    max_body_depth: int = 100
    max_upload_bytes: int = 20_971_520
    max_streams: int = 1_000
    max_streams_per_principal: int = 100
    heartbeat_seconds: float = 15.0
    shutdown_seconds: float = 10.0
    allowed_origins: tuple[str, ...] = ()
    public_docs: bool = False
    max_connections: int = 1_000
    max_url_bytes: int = 8_000
    max_headers: int = 100
    max_header_bytes: int = 32_000
    header_seconds: float = 10.0
    request_seconds: float = 60.0

    def __post_init__(self) -> None:
        reject_wrong_numbers(self, fields(self))
        origins = checked_origins("HttpSettings.allowed_origins", self.allowed_origins)
        object.__setattr__(self, "allowed_origins", origins)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> HttpSettings:
        """Return the settings in PILOTAGE_HTTP_MAX_BODY_BYTES and so on; origins are separated by commas.

        Raises:
            AgentDefinitionError: a variable is no positive number, no origin, or no switch.
        """
        variables = Variables(environ, PREFIX)
        return cls(
            **variables.numbers(fields(cls)),
            allowed_origins=variables.names(ALLOWED_ORIGINS),
            public_docs=variables.switch("PUBLIC_DOCS"),
        )


def reject_wrong_numbers(owner: object, settings: Iterable[Field[object]]) -> None:
    """Raise AgentDefinitionError for settings of which a number is not positive."""
    reject_not_positive(owner, **{name: getattr(owner, name) for name in number_types(settings)})


def checked_origins(setting: str, origins: Collection[str]) -> tuple[str, ...]:
    """Return origins as browsers send them; refuse what is no origin, with the setting's name."""
    return tuple(_as_browsers_send(setting, text) for text in origins)


def _as_browsers_send(setting: str, text: str) -> str:
    """Return an origin in lower case, without a slash at the end and without the usual port of its scheme."""
    origin = text.lower().rstrip("/")
    parts = urlsplit(origin)
    if parts.scheme not in _USUAL_PORTS or not parts.netloc or set("*@") & set(parts.netloc):
        parts = parts._replace(netloc="")
    if origin != f"{parts.scheme}://{parts.netloc}" or not _has_good_port(parts):
        raise AgentDefinitionError(
            f"{setting} has {text!r}, which is no origin. Write scheme and host: 'https://shop.example'."
        )
    return origin.removesuffix(_USUAL_PORTS[parts.scheme])


def _has_good_port(parts: SplitResult) -> bool:
    try:
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
