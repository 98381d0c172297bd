"""CopilotKit in Chromium: a thread goes on after every answer, a reload, a second tab and `kill -9`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.pages.chat import PATIENCE, Chat
from tests.pages.rig import BankServer
from tests.pages.slow_model import slow_model

OpenPage = Callable[..., Chat]
pytestmark = pytest.mark.slow
# What Chromium reports about a connection that was cut.
CUT_OFF = ("ERR_INCOMPLETE_CHUNKED_ENCODING", "network error")


def goes_on(chat: Chat) -> None:
    """The thread answers the next message, and nothing of ours was wrong on the way."""
    chat.say("balance account savings")
    chat.sees("balance(savings) gave 100")
    assert chat.errors == []


def asked(open_page: OpenPage, bank: BankServer, to: str) -> Chat:
    """A page with the question whether somebody should be paid."""
    chat = open_page(bank.url)
    chat.say(f"pay to {to} amount 5")
    chat.sees_question()
    return chat


@pytest.mark.parametrize("answer", ['{"approved": true}', "true", '"approve"', '{"decision": "approve"}'])
def test_an_approval_as_pages_send_it(open_page: OpenPage, bank: BankServer, answer: str) -> None:
    chat = asked(open_page, bank, "Cy")
    before = bank.paid
    chat.answer(answer)
    chat.sees("gave paid 5 to Cy")
    chat.sees_no_question()
    assert bank.paid == [*before, "5 to Cy"]
    goes_on(chat)


@pytest.mark.parametrize("button", ["Reject", "Cancel"])
def test_a_no_pays_nothing_and_the_thread_goes_on(open_page: OpenPage, bank: BankServer, button: str) -> None:
    chat = asked(open_page, bank, "Di")
    chat.choose(button)
    chat.sees_no_question()
    goes_on(chat)
    assert "5 to Di" not in bank.paid


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


def test_a_message_of_a_second_tab_is_not_lost(open_page: OpenPage, tmp_path: Path, origin: str) -> None:
    with slow_model() as model:
        environ = {"PILOTAGE_MODEL_BASE_URL": model.url, "PILOTAGE_MODEL_NAME": "slow"}
        bank = BankServer(tmp_path, "--allow-origin", origin, **environ)
        bank.start()
        try:
            model.go_on.clear()
            first, second = open_page(bank.url, "shared"), open_page(bank.url, "shared")
            first.say("count")
            first.sees("three")
            with second.page.expect_response(lambda each: each.request.method == "POST"):
                second.say("and again")
            # A tab that is opened meanwhile shows the run under way.
            third = open_page(bank.url, "shared")
            third.sees("count")
            third.sees("three")
            model.go_on.set()
            for tab in (first, second, third):
                tab.sees(re.compile(r"ten\..*ten\.", re.DOTALL))
                assert tab.errors == []
            assert "and again" in model.asked[-1]
        finally:
            bank.stop()


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


def test_a_kill_while_asked_loses_nothing(open_page: OpenPage, own_bank: BankServer) -> None:
    chat = asked(open_page, own_bank, "Gi")
    own_bank.kill()
    own_bank.start()
    chat.choose("Approve")
    chat.sees("gave paid 5 to Gi")
    goes_on(chat)
    assert own_bank.paid == ["5 to Gi"]


def test_a_kill_in_mid_stream_leaves_a_thread_that_goes_on(
    open_page: OpenPage, tmp_path: Path, origin: str
) -> None:
    with slow_model() as model:
        environ = {"PILOTAGE_MODEL_BASE_URL": model.url, "PILOTAGE_MODEL_NAME": "slow"}
        bank = BankServer(tmp_path, "--allow-origin", origin, **environ)
        bank.start()
        try:
            model.go_on.clear()
            chat = open_page(bank.url)
            chat.say("count")
            chat.sees("three")
            bank.kill()
            model.go_on.set()
            bank.start()
            expect(chat.page.get_by_test_id("problem")).to_contain_text("network error", timeout=PATIENCE)
            chat.say("count again")
            chat.sees("ten.")
            assert [each for each in chat.errors if not any(cut in each for cut in CUT_OFF)] == []
        finally:
            bank.stop()
