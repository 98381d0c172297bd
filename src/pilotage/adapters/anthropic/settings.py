"""Settings of a server with `/v1/messages` and its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from urllib.parse import urlsplit

from pilotage.adapters.model_http.provider import Provider
from pilotage.adapters.model_http.server import ModelRetries, ModelTimeouts, ServerAccess
from pilotage.adapters.model_http.wires import reject_unsendable, server_address
from pilotage.agent.ports.model import ModelCapability
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import shared, value

OWN_URL = "https://api.anthropic.com/v1"


def _no_headers() -> Mapping[str, str]:
    return {}


@value
class AnthropicSettings:
    """A model of a server.

    `base_url` ends where `/messages` begins; an address without a path means `/v1`. `max_tokens` is the longest reply
    of a request that does not say one, beside its budget of reasoning: the wire has no default. `cache_marks` lets the
    provider cache the beginning of the requests of runs. `extra_body` goes into every request.
    `sends_trace` lets a server join the trace of the run, by the header `traceparent`.
    """

    model: str
    api_key: str | None = field(default=None, repr=False)
    base_url: str = OWN_URL
    max_tokens: int = 8192
    version: str = "2023-06-01"
    timeouts: ModelTimeouts = field(default_factory=shared(ModelTimeouts))
    retries: ModelRetries = field(default_factory=shared(ModelRetries))
    concurrency: int = 64
    capability: ModelCapability | None = None
    cache_marks: bool = True
    headers: Mapping[str, str] = field(default_factory=_no_headers, repr=False)
    extra_body: JsonObject = field(default_factory=empty_object)
    checks_at_start: bool = True
    sends_trace: bool = False

    def __post_init__(self) -> None:
        reject_blank(self, model=self.model, api_key=self.api_key, version=self.version)
        reject_not_positive(self, max_tokens=self.max_tokens, concurrency=self.concurrency)
        object.__setattr__(self, "base_url", server_address(self, self.base_url))
        reject_unsendable(self, self.api_key, self.headers)

    def url(self, path: str) -> str:
        """Return the address of a page, with the query of the base URL."""
        base, mark, query = self.base_url.partition("?")
        return f"{base}{path}{mark}{query}"

    @property
    def provider(self) -> Provider:
        """The provider whose state the model wants back: this wire at its host."""
        return Provider(f"anthropic.messages@{urlsplit(self.base_url).hostname}", self.model)

    @property
    def access(self) -> ServerAccess:
        """The connection to the server."""
        headers = {"content-type": "application/json", "anthropic-version": self.version, **self.headers}
        if self.api_key is not None:
            headers["x-api-key"] = self.api_key
        return ServerAccess(
            headers, self.timeouts, self.concurrency, self.api_key, sends_trace=self.sends_trace
        )
