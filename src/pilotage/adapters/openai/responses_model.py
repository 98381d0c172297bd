"""`OpenAIResponsesModel`: a model of a server with `/v1/responses`."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from typing import ClassVar, TypeVar
from urllib.parse import urlsplit

from pilotage.adapters.model_http.calls import PreparedCall
from pilotage.adapters.model_http.errors import ModelRequestError
from pilotage.adapters.model_http.provider import STATE_LEFT_OUT, Provider
from pilotage.adapters.model_http.wires import Wire, expect_wire
from pilotage.adapters.openai.model import OpenAICompatibleModel
from pilotage.adapters.openai.request_mapping import names_of
from pilotage.adapters.openai.responses_reply import ResponsesReader
from pilotage.adapters.openai.responses_request import responses_body
from pilotage.agent.model_request import ModelRequest
from pilotage.jsonvalue import JsonObject

_log = logging.getLogger(__name__)
T = TypeVar("T")
_NO_ENCRYPTED = re.compile(r"encrypted.?content.{0,40}not supported", re.IGNORECASE)


class OpenAIResponsesModel(OpenAICompatibleModel):
    """One model of one server, over its Responses API.

    The server stores nothing: each request has the whole transcript, with the encrypted reasoning of earlier replies.
    Settings, failures, retries and streams are those of `OpenAICompatibleModel`.
    """

    wire: ClassVar[Wire] = Wire.RESPONSES
    _takes_encrypted = True
    """Whether the model may be asked for encrypted reasoning: one that does not reason refuses the whole request."""

    @property
    def provider(self) -> Provider:
        """The provider whose state the model wants back: this wire at its host."""
        host = urlsplit(self.settings.base_url).hostname
        return Provider(f"openai.responses@{host}", self.settings.model)

    async def _learn(self) -> None:
        await expect_wire(self.wire, self.server, self.settings.url)
        await super()._learn()

    async def _sent(
        self, request: ModelRequest, send: Callable[[PreparedCall], Awaitable[T]], *, streams: bool
    ) -> T:
        try:
            return await super()._sent(request, send, streams=streams)
        except ModelRequestError as error:
            if not self._takes_encrypted or _NO_ENCRYPTED.search(str(error)) is None:
                raise
        _log.info("model %r gives no encrypted reasoning", self.settings.model)
        self._takes_encrypted = False
        return await super()._sent(request, send, streams=streams)

    async def _prepared(self, request: ModelRequest, *, streams: bool) -> PreparedCall:
        names, provider, settings = names_of(request), self.provider, self.settings
        body = responses_body(
            request,
            settings,
            self.capability,
            names,
            provider,
            streams=streams,
            asks_encrypted=self._takes_encrypted,
        )
        left_out = provider.left_out(request.messages)
        if left_out:
            _log.info("model %r: the state of %s is not sent", settings.model, ", ".join(left_out))

        def reader(facts: JsonObject) -> ResponsesReader:
            of_request = {**facts, STATE_LEFT_OUT: left_out} if left_out else facts
            return ResponsesReader(request, names, provider, of_request)

        return PreparedCall(
            self.server, settings, settings.url("/responses"), json.dumps(body).encode(), reader
        )
