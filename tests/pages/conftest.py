"""One built page, one browser and one bank for all tests of pages; each test has a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.pages.chat import Chat
from tests.pages.rig import CHROMIUM, BankServer, built_page, files_of
from tests.pages.slow_model import SlowModel, slow_model

OpenPage = Callable[..., Chat]


@pytest.fixture(scope="session")
def origin() -> Iterator[str]:
    """Where the page is: another origin than that of the bank."""
    with files_of(built_page()) as address:
        yield address


@pytest.fixture(scope="module")
def browser(origin: str) -> Iterator[Browser]:
    """A browser for one module: while it is driven, no other event loop can run in this thread."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def bank(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BankServer]:
    """A bank that pages of the origin may talk to."""
    server = BankServer(tmp_path_factory.mktemp("bank"), "--allow-origin", origin)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def slow_bank(
    origin: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BankServer, SlowModel]]:
    """A bank with a model that streams slowly, which tests may kill and start again."""
    with slow_model() as model:
        environ = {"PILOTAGE_MODEL_BASE_URL": model.url, "PILOTAGE_MODEL_NAME": "slow"}
        server = BankServer(tmp_path_factory.mktemp("slow-bank"), "--allow-origin", origin, **environ)
        server.start()
        yield server, model
        server.stop()


@pytest.fixture
def open_page(browser: Browser, origin: str) -> Iterator[OpenPage]:
    opened: list[Chat] = []

    def open_(server: str, thread: str | None = None) -> Chat:
        opened.append(Chat.opened(browser, origin, server, thread or uuid4().hex))
        return opened[-1]

    yield open_
    for each in opened:
        each.context.close()
