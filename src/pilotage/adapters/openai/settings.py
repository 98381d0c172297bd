"""Which server, which model, and how patient to be with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import ClassVar
from urllib.parse import urlsplit

from pilotage.agent.ports.model import ModelCapability
from pilotage.checks import reject_blank, reject_negative, reject_not_positive
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import shared, value

_CHAT = "/chat/completions"


class EvidenceRole(StrEnum):
    """As whom the wire, which knows no evidence, is told what the application shows the model.

    USER is for chat templates that take a system message only in the first place.
    """

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"


@value
class ModelTimeouts:
    """How long to wait, in seconds: for a connection, the first piece of a reply, the next one, the whole."""

    connect: float = 5
    first_token: float = 300
    idle: float = 60
    request: float = 900

    def __post_init__(self) -> None:
        reject_not_positive(
            self, connect=self.connect, first_token=self.first_token, idle=self.idle, request=self.request
        )


@value
class ModelRetries:
    """How often to try again, as long as nothing of a reply was told, and how long to wait before.

    The pause doubles from `first_pause` on, with jitter. A server that asks for a pause gets it, up to
    `longest_pause`; one that asks for more is not tried again.
    """

    most: int = 2
    first_pause: float = 0.5
    longest_pause: float = 30

    def __post_init__(self) -> None:
        reject_negative(self, most=self.most)
        reject_not_positive(self, first_pause=self.first_pause, longest_pause=self.longest_pause)


def _no_headers() -> Mapping[str, str]:
    return {}


@value
class OpenAICompatibleSettings:
    """A model of a server.

    `base_url` ends where `/chat/completions` begins; an address without a path means `/v1`. `capability` is
    what the model can do; what the server tells (the length of the context) fills what is left open. `extra_body`
    goes into every request, for what this adapter has no name for.
    """

    default_path: ClassVar[str] = "/v1"

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeouts: ModelTimeouts = field(default_factory=shared(ModelTimeouts))
    retries: ModelRetries = field(default_factory=shared(ModelRetries))
    concurrency: int = 64
    capability: ModelCapability | None = None
    evidence_role: EvidenceRole = EvidenceRole.SYSTEM
    max_tokens_field: str = "max_tokens"
    headers: Mapping[str, str] = field(default_factory=_no_headers, repr=False)
    extra_body: JsonObject = field(default_factory=empty_object)
    checks_at_start: bool = True

    def __post_init__(self) -> None:
        reject_blank(self, model=self.model, api_key=self.api_key, max_tokens_field=self.max_tokens_field)
        reject_not_positive(self, concurrency=self.concurrency)
        object.__setattr__(self, "base_url", _address(self.base_url, self.default_path))

    @property
    def root_url(self) -> str:
        """Where the server's own pages are, such as `/health`."""
        return self.base_url.removesuffix(self.default_path)


def _address(text: str, default_path: str) -> str:
    """The address without a slash at its end.

    Raises:
        AgentDefinitionError: it is no address of an HTTP server, or one of a single page.
    """
    address = text.strip().rstrip("/")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise AgentDefinitionError(
            f"OpenAICompatibleSettings.base_url is {text!r}, which is no address of a server. "
            "Write it like 'http://127.0.0.1:8000/v1'."
        )
    if address.endswith(_CHAT):
        raise AgentDefinitionError(
            f"OpenAICompatibleSettings.base_url is {text!r}. Leave {_CHAT!r} out: "
            f"{address.removesuffix(_CHAT)!r}."
        )
    return address if parts.path else f"{address}{default_path}"
