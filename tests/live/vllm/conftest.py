"""One real server for all tests, and models that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.live.vllm.rig import VllmServer

from pilotage.adapters.openai import (
    ModelRetries,
    OpenAICompatibleSettings,
    VllmAgentModel,
    VllmSettings,
)

# Few at a time and few in the queue, so that a test can fill both.
FLAGS = ["--max-num-seqs", "4", "--max-num-queued-reqs", "4"]
# Models that know nothing write blanks for ever where a grammar allows them.
FLAGS += ["--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}']
SAMPLING = {"temperature": 1.0, "seed": 7, "max_tokens": 600}
ModelMaker = Callable[..., VllmAgentModel]


@pytest.fixture(scope="session")
def server() -> Iterator[VllmServer]:
    vllm = VllmServer(*FLAGS)
    vllm.start()
    try:
        yield vllm
    finally:
        vllm.stop()


@pytest.fixture
async def make_model(server: VllmServer) -> AsyncIterator[ModelMaker]:
    async with AsyncExitStack() as stack:

        def made(model: str = "tiny", base_url: str = "", retries: int = 0, **extra: Any) -> VllmAgentModel:
            settings = OpenAICompatibleSettings(
                base_url or server.root_url,
                model,
                retries=ModelRetries(most=retries, first_pause=0.2),
                extra_body={**SAMPLING, **extra},
            )
            vllm = VllmAgentModel(VllmSettings(settings))
            stack.push_async_callback(vllm.aclose)
            return vllm

        yield made
