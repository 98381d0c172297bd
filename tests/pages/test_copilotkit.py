"""CopilotKit in Chromium against `pilotage serve`: chat, tool cards, an approval, a tool of the page, other origins."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, expect
from tests.pages.chat import PATIENCE, Chat
from tests.pages.rig import BankServer, built_page, files_of

OpenPage = Callable[..., Chat]
pytestmark = pytest.mark.slow


def test_a_chat_of_two_turns_with_tool_cards(open_page: OpenPage, bank: BankServer) -> None:
    chat = open_page(bank.url)
    chat.say("Hello there")
    chat.sees("offline model")
    chat.say("balance account savings")
    chat.sees("balance(savings) gave 100")
    expect(chat.card("balance")).to_contain_text("100", timeout=PATIENCE)
    assert chat.errors == []


def test_a_payment_is_made_after_an_answer_and_only_once(open_page: OpenPage, bank: BankServer) -> None:
    chat = open_page(bank.url)
    before = bank.paid
    chat.say("pay to Bo amount 5")
    chat.sees_question()
    # What a person must judge is on the card.
    expect(chat.question).to_contain_text("Pay 5 EUR to Bo?")
    expect(chat.page.get_by_test_id("question-arguments")).to_have_text("toBoamount5")
    expect(chat.question).to_contain_text("cannot be taken back")
    assert bank.paid == before
    chat.answer('{"decision": "approve"}')
    chat.sees("gave paid 5 to Bo")
    chat.sees_no_question()
    assert bank.paid == [*before, "5 to Bo"]
    assert chat.errors == []


def test_a_tool_of_the_page_is_called_and_its_result_comes_back(
    open_page: OpenPage, bank: BankServer
) -> None:
    chat = open_page(bank.url)
    chat.say("paint color teal")
    expect(chat.page.get_by_test_id("walls")).to_have_text("walls: teal", timeout=PATIENCE)
    chat.sees("the walls are teal")
    assert chat.errors == []


def test_the_state_goes_both_ways(open_page: OpenPage, bank: BankServer) -> None:
    chat = open_page(bank.url)
    chat.page.get_by_role("button", name="Choose savings").click()
    with chat.page.expect_request(lambda each: each.method == "POST") as request:
        chat.say("chosen")
    assert json.loads(request.value.post_data or "{}")["state"] == {"account": "savings"}
    # A tool has read what the page chose, and the page shows what the tool has added.
    expect(chat.card("chosen")).to_contain_text("savings has 100", timeout=PATIENCE)
    expect(chat.page.get_by_test_id("state")).to_have_text('{"account":"savings","balance":100}')
    chat.sees("gave savings has 100")
    with chat.page.expect_request(lambda each: each.method == "POST") as request:
        chat.say("Hello there")
    assert json.loads(request.value.post_data or "{}")["state"] == {"account": "savings", "balance": 100}
    chat.sees("offline model")
    assert chat.errors == []


def test_a_page_that_is_not_allowed_is_refused_with_the_option(browser: Browser, bank: BankServer) -> None:
    with files_of(built_page()) as elsewhere:
        chat = Chat.opened(browser, elsewhere, bank.url, uuid4().hex)
        with chat.page.expect_event("requestfailed") as failed:
            chat.say("Hello there")
        assert failed.value.url.endswith("/teller")
        expect(chat.page.get_by_test_id("problem")).to_contain_text("Failed to fetch", timeout=PATIENCE)
        assert any("has been blocked by CORS policy" in each for each in chat.errors)
        answer = chat.context.request.post(f"{bank.url}/teller", headers={"origin": elsewhere}, data="{}")
        assert (answer.status, f"--allow-origin {elsewhere}" in answer.json()["detail"]) == (403, True)
        chat.context.close()
