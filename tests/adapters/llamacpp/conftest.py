"""One real server for all tests of a worker; it takes a few tenths of a second."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.adapters.llamacpp.rig import LlamaServer
from tests.adapters.llamacpp.tiny_model import write_model


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp has no wheel for this system")
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    return path


@pytest.fixture(scope="session")
def llama(gguf: Path) -> Iterator[LlamaServer]:
    server = LlamaServer(gguf)
    server.start()
    try:
        yield server
    finally:
        server.kill()
