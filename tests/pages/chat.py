"""A person at the page: what they type, click and see."""

from __future__ import annotations

import re
from typing import Self

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

# Chromium and a server share a machine that may be busy.
PATIENCE = 120_000
# What CopilotKit itself says, whoever serves it.
_NOT_OURS = ("CopilotKit's Enterprise", "agents__unsafe_dev_only", "license", "Lit is in dev mode")


class Chat:
    """One tab of a browser with the page, in one thread."""

    def __init__(self, context: BrowserContext, origin: str, server: str, thread: str) -> None:
        self.context = context
        self.address = f"{origin}/?server={server}&thread={thread}"
        self.errors: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda each: self._heard(each.type, each.text))
        self.page.on("pageerror", lambda each: self._heard("error", str(each)))
        self.page.goto(self.address)
        self.box.wait_for()

    @classmethod
    def opened(cls, browser: Browser, origin: str, server: str, thread: str) -> Self:
        """A person who opens the page."""
        return cls(browser.new_context(), origin, server, thread)

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(each in text for each in _NOT_OURS):
            self.errors.append(f"{kind}: {text}")

    @property
    def box(self) -> Locator:
        """Where a message is written."""
        return self.page.get_by_placeholder("Type a message")

    @property
    def question(self) -> Locator:
        """The card with the open question."""
        return self.page.get_by_test_id("question")

    def say(self, text: str) -> None:
        """Send a message."""
        self.box.fill(text)
        self.box.press("Enter")

    def stop(self) -> None:
        """Press the button that stops the answer; it is that which sends a message."""
        self.page.get_by_test_id("copilot-send-button").click()

    def choose(self, name: str) -> None:
        """Press a button of the open question."""
        self.question.get_by_role("button", name=name, exact=True).click()

    def answer(self, payload: str) -> None:
        """Answer the open question with any JSON."""
        self.question.get_by_label("Other answer").fill(payload)
        self.choose("Send answer")

    def sees(self, text: str | re.Pattern[str]) -> None:
        """Wait until a text is on the page."""
        expect(self.page.locator("body")).to_contain_text(text, timeout=PATIENCE)

    def sees_question(self) -> None:
        """Wait until exactly one question is open."""
        expect(self.question).to_have_count(1, timeout=PATIENCE)

    def sees_no_question(self) -> None:
        """Wait until no question is open."""
        expect(self.question).to_have_count(0, timeout=PATIENCE)

    def card(self, tool: str) -> Locator:
        """The cards of a tool."""
        return self.page.get_by_test_id(f"card-{tool}")
