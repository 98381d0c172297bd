"""`pilotage chat` and `run --conversation`: a run for each line, as one conversation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.behaviour.terminal import CTRL_C, CTRL_D, ENTER, Terminal
from tests.behaviour.till import Till

APP = {"PILOTAGE_APP": "till:app"}
HISTORY = """
import asyncio, sys
from pilotage.agent import ITaskStore
from till import app
async def main():
    async with app:
        turns = await app.get(ITaskStore).load_history(sys.argv[1])
        print([turn.content.splitlines()[0] for turn in turns])
asyncio.run(main())
"""


@pytest.fixture
def till(tmp_path: Path, sqlite_template: Path) -> Till:
    return Till(tmp_path, sqlite_template)


def turns(till: Till, conversation: str) -> str:
    """The stored turns of a conversation."""
    command = [sys.executable, "-c", HISTORY, conversation]
    return subprocess.run(command, cwd=till.folder, capture_output=True, text=True, check=True).stdout  # noqa: S603


def piped(till: Till, *words: str, given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pilotage", *words, "--app", "till:app"]
    return subprocess.run(  # noqa: S603 - our own command
        command, cwd=till.folder, input=given, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_chat_asks_questions_between_the_lines_and_remembers_what_was_said(till: Till) -> None:
    with Terminal("chat", "Desk", folder=till.folder, environ=APP) as terminal:
        terminal.expect("Ctrl-D or /quit ends the chat.")
        terminal.expect("> ")
        terminal.type(f"pay to DE-0815-4711 amount 5{ENTER}")
        terminal.expect("? Approve the call of tool 'pay'?")
        terminal.expect("(Ctrl-D: later) > ")
        terminal.type(f"approve{ENTER}")
        terminal.expect("└ paid 5")
        terminal.expect("✓ 2 model calls, 1 tool call, ")
        terminal.expect("> ")
        terminal.type(f"{ENTER}balance of bob{ENTER}")
        terminal.expect("balance(bob) gave 7")
        terminal.expect("> ")
        terminal.type(CTRL_D)
        terminal.expect("continue this conversation: pilotage chat Desk --conversation")
        assert terminal.ended() == 0
        found = re.search(r"\b[0-9a-f]{32}\b", terminal.text)
    assert found
    assert till.ledger == ["DE-0815-4711 5"]
    assert turns(till, found[0]) == (
        "['pay to DE-0815-4711 amount 5', 'pay(5, DE-0815-4711) gave paid 5', 'balance of bob', "
        "'balance(bob) gave 7']\n"
    )


def test_ctrl_c_cancels_the_run_and_the_chat_goes_on(till: Till) -> None:
    with Terminal("chat", "Desk", folder=till.folder, environ=APP) as terminal:
        terminal.expect("> ")
        terminal.type(f"wait{ENTER}")
        terminal.expect("● wait()")
        terminal.type(CTRL_C)
        terminal.expect("cancelled: Ctrl-C")
        terminal.expect("> ")
        terminal.type(f"balance of bob{ENTER}")
        terminal.expect("balance(bob) gave 7")
        terminal.expect("> ")
        terminal.type(CTRL_C)
        assert terminal.ended() == 130
        assert "Traceback" not in terminal.text


def test_a_line_that_was_typed_before_a_question_was_shown_is_no_answer_to_it(till: Till) -> None:
    with Terminal("chat", "Desk", folder=till.folder, environ=APP) as terminal:
        terminal.expect("> ")
        terminal.type(f"pay to DE-0815-4711 amount 5{ENTER}approve{ENTER}")
        terminal.expect("(Ctrl-D: later) > ")
        terminal.type(CTRL_D)
        assert terminal.ended() == 3
    assert till.ledger == []


def test_an_ephemeral_agent_remembers_the_conversation_too(till: Till) -> None:
    for text in ("balance of bob", "balance of eve"):
        assert till.call("run", "Clerk", text, "--conversation", "c-1").code == 0
    assert turns(till, "c-1") == (
        "['balance of bob', 'balance(bob) gave 7', 'balance of eve', 'balance(eve) gave 7']\n"
    )


@pytest.mark.slow
def test_through_a_pipe_each_line_is_a_run_and_a_question_ends_the_chat(till: Till) -> None:
    said = piped(till, "chat", "Clerk", given="balance of bob\n\nbalance of eve")
    assert said.returncode == 0
    assert said.stdout.count("gave 7\n") == 2
    asked = piped(till, "chat", "Desk", given="pay to DE-0815-4711 amount 5\nbalance of bob\n")
    assert (asked.returncode, asked.stdout) == (3, "")
    assert "pilotage runs approve " in asked.stderr


def test_an_agent_that_takes_no_text_cannot_chat(till: Till) -> None:
    refused = till.call("chat", "Packer")
    assert refused.code == 2
    assert "Packer takes order: Order, not a text. Use: pilotage run Packer JSON." in refused.err


def test_a_conversation_with_an_open_run_names_the_run(till: Till) -> None:
    first = till.call("run", "Desk", "pay to DE-0815-4711 amount 5", "--conversation", "c-1")
    run = first.err.split()[1]
    second = till.call("run", "Desk", "balance of bob", "--conversation", "c-1")
    assert second.code == 5
    assert run in second.err


BRIEF = """
from pilotage import Agent, Application, OfflineModel, ToolEffects, agent_tool

class Balances:
    @agent_tool(effects=ToolEffects.read_only())
    def balance(self, of: str) -> str:
        "The balance of a person."
        return "7"

@Agent(durable=True, max_steps=1)
class Brief(Balances):
    "Answer in one step."

@Agent(max_steps=1)
class Passing(Balances):
    "Answer in one step, and keep nothing."

app = Application("brief").add(Brief, Passing, OfflineModel).load_plugins()
"""


@pytest.mark.parametrize("agent", ["Brief", "Passing"])
def test_a_chat_goes_on_after_a_run_that_stopped_at_a_limit(till: Till, agent: str) -> None:
    (till.folder / "brief.py").write_text(BRIEF)
    words = ("chat", f"brief:{agent}", "--conversation", "c-1")
    for given, answers in (("balance of bob\nhello\nbalance of eve", 1), ("hello", 1)):
        said = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "pilotage", *words],
            cwd=till.folder,
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert said.stderr.count("stopped at a limit: the agent stopped short") == given.count("balance")
        assert said.stdout.count("offline model") == answers
