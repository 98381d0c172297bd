"""`AnthropicModel`: a model of a server with `/v1/messages`."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from pilotage.adapters.anthropic.reply_mapping import MessagesReader
from pilotage.adapters.anthropic.request_mapping import counted_body, messages_body, names_of
from pilotage.adapters.anthropic.settings import AnthropicSettings
from pilotage.adapters.model_http.calls import PreparedCall, Retrying
from pilotage.adapters.model_http.decoding import parsed_object
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.provider import STATE_LEFT_OUT, with_provider
from pilotage.adapters.model_http.server import ModelServer
from pilotage.adapters.model_http.wires import Wire, expect_wire, spoken_wires
from pilotage.agent.model_failure import ModelFailure
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.model import IAgentModel, ModelCapability
from pilotage.container.lifecycle import ILifecycle
from pilotage.errors import AgentDefinitionError
from pilotage.ids import IClock, IIds, SystemClock, SystemIds
from pilotage.jsonvalue import JsonObject

_log = logging.getLogger(__name__)


_MEDIA = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "application/json", "text/*"}
)
"""The types of media that have a place in a message."""


class AnthropicModel(IAgentModel, ILifecycle):
    """One model of one server, over one pool of connections.

    A failed call is retried only as long as no event of the reply was yielded. Closing a stream closes its connection.
    """

    wire: ClassVar[Wire] = Wire.MESSAGES

    def __init__(
        self,
        settings: AnthropicSettings,
        *,
        server: ModelServer | None = None,
        clock: IClock | None = None,
        ids: IIds | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._own_server = server
        capability = settings.capability or ModelCapability(
            settings.model, reasoning=True, media_types=_MEDIA
        )
        self._capability = with_provider(capability, settings.base_url, "anthropic")
        self._retrying = Retrying(settings.model, settings.retries, self._clock, ids or SystemIds())

    @property
    def capability(self) -> ModelCapability:
        return self._capability

    async def start(self) -> None:
        """Ask the server whether it speaks this wire; an unreachable one does not prevent the start.

        Raises:
            AgentDefinitionError: the server does not speak the wire, or does not accept the key.
        """
        if not self.settings.checks_at_start:
            return
        try:
            await expect_wire(self.wire, self.server, self.settings.url)
        except ModelServerError as error:
            if error.failure is ModelFailure.UNAUTHORIZED:
                await self.aclose()
                raise AgentDefinitionError(
                    f"model {self.settings.model!r} cannot be used: {error}"
                ) from error
            _log.warning("model %r: nothing learned from its server (%s)", self.settings.model, error.failure)
        except AgentDefinitionError:
            await self.aclose()  # `stop` is not called after a failed start
            raise

    async def spoken_wires(self) -> Sequence[Wire]:
        """Return the wires that the server speaks.

        Raises:
            ModelServerError: the server cannot be reached, or does not accept the key.
        """
        return await spoken_wires(self.server, self.settings.url)

    async def stop(self) -> None:
        """Close all connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; for models that no application owns."""
        if self._own_server is not None:
            await self._own_server.close()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._retrying.result_of(self._prepared(request, streams=False).whole)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        reply, events = await self._retrying.result_of(self._prepared(request, streams=True).begun)
        try:
            while events:
                for event in events:
                    yield event
                events = await reply.next()
        finally:
            await reply.close()

    async def count_tokens(self, request: ModelRequest) -> int:
        """Return the tokens of a request as the server counts them.

        Raises:
            ModelServerError: the request failed, or the server does not count.
        """
        body = json.dumps(counted_body(request, self.settings, names_of(request))).encode()
        answer = parsed_object(await self.server.post(self.settings.url("/messages/count_tokens"), body))
        count = answer.get("input_tokens")
        if not isinstance(count, int):
            raise failed(ModelFailure.UNREADABLE, "a count without input_tokens")
        return count

    @property
    def server(self) -> ModelServer:
        """The connection, which is made on first use."""
        if self._own_server is None:
            # httpx is slow to import, and a plugin must be loadable without it.
            from pilotage.adapters.model_http.http_server import HttpServer  # noqa: PLC0415

            self._own_server = HttpServer(self.settings.access, self._clock)
        return self._own_server

    def _prepared(self, request: ModelRequest, *, streams: bool) -> PreparedCall:
        names, settings = names_of(request), self.settings
        body = messages_body(request, settings, self._capability, names, streams=streams)
        left_out = settings.provider.left_out(request.messages)
        if left_out:
            _log.info("model %r: the state of %s is not sent", settings.model, ", ".join(left_out))

        def reader(facts: JsonObject) -> MessagesReader:
            of_request = {**facts, STATE_LEFT_OUT: left_out} if left_out else facts
            return MessagesReader(request, names, settings.provider, of_request)

        return PreparedCall(
            self.server, settings, settings.url("/messages"), json.dumps(body).encode(), reader
        )
