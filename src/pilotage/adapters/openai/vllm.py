"""`VllmAgentModel`: a model of a vLLM server, with what vLLM adds to the protocol."""

from __future__ import annotations

from pilotage.adapters.openai.dialect import Dialect, vllm_dialect
from pilotage.adapters.openai.errors import ModelFailure, ModelServerError
from pilotage.adapters.openai.model import OpenAICompatibleModel
from pilotage.adapters.openai.server import ModelServer
from pilotage.adapters.openai.server_facts import read_version
from pilotage.adapters.openai.vllm_settings import VllmSettings
from pilotage.ids import IClock, IIds


class VllmAgentModel(OpenAICompatibleModel):
    """A model of a vLLM server.

    The server is asked for its version once, because vLLM ignores parameters it does not know without a word. When
    it cannot be reached it is asked again, for another version may come back.
    """

    def __init__(
        self,
        settings: VllmSettings,
        *,
        server: ModelServer | None = None,
        clock: IClock | None = None,
        ids: IIds | None = None,
    ) -> None:
        super().__init__(settings.server, server=server, clock=clock, ids=ids)
        self.options = settings.options
        self._dialect: Dialect | None = None

    async def version(self) -> str | None:
        """The version of the server; None where it does not tell.

        Raises:
            ModelServerError: it cannot be asked.
        """
        try:
            return read_version(await self.server.get(f"{self.settings.root_url}/version"))
        except ModelServerError as error:
            if error.failure in (ModelFailure.NOT_FOUND, ModelFailure.UNREADABLE, ModelFailure.UNAUTHORIZED):
                return None
            raise

    async def is_healthy(self) -> bool:
        """Whether the server is there and its engine works."""
        try:
            await self.server.get(f"{self.settings.root_url}/health")
        except ModelServerError:
            return False
        return True

    async def dialect(self) -> Dialect:
        if self._dialect is None:
            self._dialect = vllm_dialect(await self._tried(self.version), self.options)
        return self._dialect

    def _lose_server(self) -> None:
        self._dialect = None

    async def _learn(self) -> None:
        await super()._learn()
        self._dialect = vllm_dialect(await self.version(), self.options)
