"""CopilotKit in Chromium: a thread goes on after every answer, a reload, a second tab and `kill -9`."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect
from tests.pages.chat import PATIENCE, Chat
from tests.pages.rig import BankServer
from tests.pages.slow_model import SlowModel

OpenPage = Callable[..., Chat]
TWICE = re.compile(r"ten\..*ten\.", re.DOTALL)
pytestmark = pytest.mark.slow
# What Chromium reports about a connection that was cut.
CUT_OFF = ("ERR_INCOMPLETE_CHUNKED_ENCODING", "network error")


def goes_on(chat: Chat) -> None:
    """The thread answers the next message, and nothing of ours was wrong on the way."""
    chat.say("balance account savings")
    chat.sees("gave 100")
    assert chat.errors == []


def asked(open_page: OpenPage, bank: BankServer, to: str) -> Chat:
    """A page with the question whether somebody should be paid."""
    chat = open_page(bank.url)
    chat.say(f"pay to {to} amount 5")
    chat.sees_question()
    return chat


def test_approvals_as_pages_send_them(open_page: OpenPage, bank: BankServer) -> None:
    chat = open_page(bank.url)
    answers = ('{"approved": true}', "true", '"approve"', '{"decision": "approve"}')
    for amount, answer in enumerate(answers, start=1):
        chat.say(f"pay to Cy amount {amount}")
        chat.sees_question()
        chat.answer(answer)
        chat.sees(f"gave paid {amount} to Cy")
        chat.sees_no_question()
    assert [each for each in bank.paid if "Cy" in each] == ["1 to Cy", "2 to Cy", "3 to Cy", "4 to Cy"]
    goes_on(chat)


def test_a_no_pays_nothing_and_the_thread_goes_on(open_page: OpenPage, bank: BankServer) -> None:
    chat = open_page(bank.url)
    for button in ("Reject", "Cancel"):
        chat.say(f"pay to Di amount {len(button)}")
        chat.sees_question()
        chat.choose(button)
        chat.sees_no_question()
    goes_on(chat)
    assert not [each for each in bank.paid if "Di" in each]


def test_an_answer_that_does_not_fit_brings_the_same_question_again(
    open_page: OpenPage, bank: BankServer
) -> None:
    chat = asked(open_page, bank, "Ed")
    chat.answer('{"colour": "red"}')
    chat.sees("The answer was not accepted")
    chat.sees_question()
    assert "5 to Ed" not in bank.paid
    chat.choose("Approve")
    chat.sees("gave paid 5 to Ed")
    goes_on(chat)
    assert bank.paid.count("5 to Ed") == 1


def test_a_question_is_there_again_after_a_reload(open_page: OpenPage, bank: BankServer) -> None:
    chat = asked(open_page, bank, "Fa")
    chat.page.reload()
    chat.sees_question()
    chat.sees("pay to Fa amount 5")
    chat.choose("Approve")
    chat.sees("gave paid 5 to Fa")
    chat.page.reload()
    chat.sees("gave paid 5 to Fa")
    chat.sees_no_question()
    goes_on(chat)
    assert bank.paid.count("5 to Fa") == 1


def test_a_message_of_a_second_tab_is_not_lost(
    open_page: OpenPage, slow_bank: tuple[BankServer, SlowModel]
) -> None:
    bank, model = slow_bank
    with model.held():
        first, second = open_page(bank.url, "shared"), open_page(bank.url, "shared")
        first.say("count")
        first.sees("three")
        second.say("and again")
        # Its stream is that of the run, which has the message.
        second.sees("three")
        # A tab that is opened meanwhile shows the run under way.
        third = open_page(bank.url, "shared")
        third.sees("count")
        third.sees("and again")
        third.sees("three")
    for tab in (first, second, third):
        tab.sees(TWICE)
        assert tab.errors == []
    assert "and again" in model.asked[-1]


def test_the_button_that_stops_the_answer_cancels_the_run(
    open_page: OpenPage, slow_bank: tuple[BankServer, SlowModel]
) -> None:
    bank, model = slow_bank
    with model.held():
        chat = open_page(bank.url)
        chat.say("count")
        chat.sees("three")
        with chat.page.expect_request(lambda each: "cancelRun" in (each.post_data or "")):
            chat.stop()
        goes_on(chat)
    newest = chat.context.request.get(f"{bank.url}/runs?limit=2").json()["runs"]
    assert [run["status"] for run in newest] == ["completed", "cancelled"]
    chat.page.reload()
    chat.sees("gave 100")
    chat.sees("One two three")


def test_two_tabs_with_one_question_pay_once(open_page: OpenPage, bank: BankServer) -> None:
    first, second = open_page(bank.url, "one question"), open_page(bank.url, "one question")
    first.say("pay to Hal amount 5")
    first.sees_question()
    second.say("balance account main")
    second.sees_question()
    second.choose("Approve")
    second.sees("balance(main) gave 100")
    second.sees_no_question()
    # The first tab does not know it yet: its answer is another one, and comes too late.
    first.choose("Reject")
    first.sees_no_question()
    goes_on(first)
    assert second.errors == []
    assert bank.paid.count("5 to Hal") == 1


def test_threads_go_on_after_a_kill_in_mid_stream_and_while_asked(
    open_page: OpenPage, slow_bank: tuple[BankServer, SlowModel]
) -> None:
    bank, model = slow_bank
    with model.held():
        waiting = asked(open_page, bank, "Gi")
        chat = open_page(bank.url)
        chat.say("count")
        chat.sees("three")
        bank.kill()
    bank.start()
    expect(chat.page.get_by_test_id("problem")).to_contain_text("network error", timeout=PATIENCE)
    chat.say("count again")
    chat.sees("ten.")
    assert [each for each in chat.errors if not any(cut in each for cut in CUT_OFF)] == []
    waiting.choose("Approve")
    waiting.sees("gave paid 5 to Gi")
    goes_on(waiting)
    assert bank.paid.count("5 to Gi") == 1
