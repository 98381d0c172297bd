"""`pilotage` in a real pseudo-terminal: prompts, Ctrl-C, width."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.behaviour.terminal import CTRL_C, CTRL_D, ENTER, Terminal
from tests.behaviour.till import Till

APP = {"PILOTAGE_APP": "till:app"}


@pytest.fixture
def till(tmp_path: Path, sqlite_template: Path) -> Till:
    return Till(tmp_path, sqlite_template)


def test_a_run_is_streamed_and_says_how_it_came_out(till: Till) -> None:
    with Terminal("run", "Clerk", "balance of bob", folder=till.folder, environ=APP) as terminal:
        terminal.expect('● balance(of="bob")')
        terminal.expect("└ 7")
        terminal.expect("balance(bob) gave 7")
        terminal.expect("✓ completed: 2 model calls, 1 tool call, ")
        assert terminal.ended() == 0
        assert (
            terminal.text.count("balance(bob) gave 7") == 1
        )  # the answer was streamed, and is not said again
        assert "\x1b[32m" in terminal.raw


def test_a_question_is_asked_at_the_prompt_and_the_run_goes_on(till: Till) -> None:
    with Terminal("run", "Desk", "pay to DE-0815-4711 amount 5", folder=till.folder, environ=APP) as terminal:
        terminal.expect("? Approve the call of tool 'pay'?")
        terminal.expect('to = "***4711"')
        terminal.expect("approve / reject / modify / defer / cancel (Ctrl-D: later) > ")
        terminal.type(f"perhaps{ENTER}")
        terminal.expect("write one of: approve, reject, modify, defer, cancel")
        terminal.expect("> ")
        terminal.type(f"ap{ENTER}")
        terminal.expect("└ paid 5")
        terminal.expect("✓ completed")
        assert terminal.ended() == 0
    assert till.ledger == ["DE-0815-4711 5"]


def test_a_prompt_breaks_between_words_in_a_narrow_terminal(till: Till) -> None:
    words = ("run", "Desk", "pay to DE-0815-4711 amount 5")
    with Terminal(*words, folder=till.folder, columns=50, environ=APP) as terminal:
        terminal.expect("(Ctrl-D: later) > ")
        terminal.type(f"approve{ENTER}")
        terminal.expect("✓ completed")
        assert terminal.ended() == 0
        lines = terminal.text.splitlines()
    assert "approve / reject / modify / defer / cancel" in lines
    assert "  (Ctrl-D: later) > approve" in lines


def test_what_a_person_changes_is_what_runs(till: Till) -> None:
    with Terminal("run", "Desk", "pay to DE-0815-4711 amount 5", folder=till.folder, environ=APP) as terminal:
        terminal.expect("> ")
        terminal.type(f"modify{ENTER}")
        terminal.expect("what is masked above, in full > ")
        terminal.type(f"five{ENTER}")
        terminal.expect("that is no JSON")
        terminal.expect("> ")
        terminal.type(f"modify{ENTER}")
        terminal.expect("in full > ")
        terminal.type('{"to": "DE-0815-4711"}' + ENTER)
        terminal.expect("request stays open.")
        terminal.expect("Ctrl-D: later) > ")
        terminal.type(f"modify{ENTER}")
        terminal.expect("in full > ")
        terminal.type('{"to": "DE-0815-4711", "amount": 3}' + ENTER)
        terminal.expect("✓ completed")
        assert terminal.ended() == 0
    assert till.ledger == ["DE-0815-4711 3"]


def test_ctrl_d_leaves_the_question_open_and_says_how_to_answer_later(till: Till) -> None:
    with Terminal("run", "Desk", "pay to DE-0815-4711 amount 5", folder=till.folder, environ=APP) as terminal:
        terminal.expect("> ")
        terminal.type(CTRL_D)
        terminal.expect("pilotage runs approve ")
        assert terminal.ended() == 3
    assert till.ledger == []


def test_a_deferred_question_is_not_asked_twice(till: Till) -> None:
    with Terminal("run", "Desk", "pay to DE-0815-4711 amount 5", folder=till.folder, environ=APP) as terminal:
        terminal.expect("> ")
        terminal.type(f"defer{ENTER}")
        assert terminal.ended() == 3
        assert terminal.text.count("(Ctrl-D: later)") == 1


def test_ctrl_c_cancels_the_run_and_says_so(till: Till) -> None:
    with Terminal("run", "Desk", "wait", folder=till.folder, environ=APP) as terminal:
        terminal.expect("● wait()")
        terminal.type(CTRL_C)
        terminal.expect("cancelling; Ctrl-C again leaves at once")
        terminal.expect("cancelled: Ctrl-C")
        terminal.expect("details: pilotage runs show ")
        assert terminal.ended() == 130
    assert '"status": "cancelled"' in till.call("runs", "list", "--json").out


def test_ctrl_c_at_a_question_cancels_the_run(till: Till) -> None:
    with Terminal("run", "Desk", "pay to DE-0815-4711 amount 5", folder=till.folder, environ=APP) as terminal:
        terminal.expect("> ")
        terminal.type(CTRL_C)
        terminal.expect("cancelled: Ctrl-C")
        assert terminal.ended() == 130
    assert '"status": "cancelled"' in till.call("runs", "list", "--json").out
    assert till.ledger == []


def test_ctrl_c_ends_a_run_that_nobody_keeps(till: Till) -> None:
    with Terminal("run", "Clerk", "wait", folder=till.folder, environ=APP) as terminal:
        terminal.expect("● wait()")
        terminal.type(CTRL_C)
        terminal.expect("cancelled: the run was ephemeral")
        assert terminal.ended() == 130


def test_a_second_ctrl_c_leaves_at_once_and_the_run_can_be_resumed(till: Till) -> None:
    slow = till.folder / "slow.py"
    slow.write_text(
        "import threading\n"
        "from till import *\n"
        "@Pod\n"
        "class Stone:\n"
        "    @agent_tool(effects=ToolEffects.read_only())\n"
        "    def sit(self) -> str:\n"
        '        """Sit and never come back."""\n'
        "        threading.Event().wait()\n"
        '        return "never"\n'
        '@Agent(spec=AgentExecutionSpec(name="sitter", recovery=DURABLE))\n'
        "class Sitter:\n"
        '    """Sit."""\n'
        "    def __init__(self, stone: Stone) -> None:\n"
        "        self.stone = stone\n"
        'slow = Application("slow").add(Sitter, Stone, OfflineModel()).load_plugins()\n'
        "del app\n"
    )
    with Terminal("run", "slow:Sitter", "sit", folder=till.folder) as terminal:
        terminal.expect("● sit()")
        terminal.type(CTRL_C)
        terminal.expect("cancelling")
        terminal.type(CTRL_C)
        terminal.expect("left: a durable run can be resumed")
        assert terminal.ended() == 130
        (left,) = re.findall(r"run ([0-9a-f]{32})", terminal.text)
    assert till.call("runs", "verify", left).code == 0
    assert '"output": null' in till.call("runs", "show", left, "--json").out


def test_a_terminal_shows_what_a_run_waits_for_and_since_when(till: Till) -> None:
    with Terminal("run", "Clerk", "wait", folder=till.folder, environ=APP) as terminal:
        while " wait, 2 s" not in terminal.raw:
            terminal.read_more()
        terminal.type(CTRL_C)
        terminal.expect("cancelled: the run was ephemeral")
        assert terminal.ended() == 130
        assert " wait, " not in terminal.text  # the line was written over


@pytest.mark.slow
def test_lines_are_cut_to_the_width_of_the_terminal(till: Till) -> None:
    till.waiting_run()
    for columns, rows in ((60, 3), (110, 2), (140, 2)):
        with Terminal("runs", "list", folder=till.folder, columns=columns, environ=APP) as terminal:
            assert terminal.ended() == 0
            lines = terminal.text.splitlines()
            assert max(map(len, lines)) <= columns
            assert len(lines) == rows
            assert lines[1].endswith("…") is (columns == 110)
            assert lines[0].startswith("RUN ") is (columns > 60)


def test_colours_stay_away_where_nobody_wants_them(till: Till) -> None:
    till.waiting_run()
    with Terminal("runs", "list", folder=till.folder, environ={**APP, "NO_COLOR": "1"}) as terminal:
        assert terminal.ended() == 0
        assert "\x1b[3" not in terminal.raw


def test_what_a_model_says_cannot_steer_the_terminal(till: Till) -> None:
    with Terminal("run", "Parrot", "a\x1b[2Jb\u202ec\x07", folder=till.folder, environ=APP) as terminal:
        terminal.expect("a\\x1b[2Jb\\u202ec\\x07")
        assert terminal.ended() == 0
        assert "\x1b[2J" not in terminal.raw


def test_resuming_asks_at_the_prompt_too(till: Till) -> None:
    run_id = till.waiting_run()
    with Terminal("runs", "resume", run_id[:8], folder=till.folder, environ=APP) as terminal:
        terminal.expect("> ")
        terminal.type(f"reject{ENTER}")
        terminal.expect("why (Enter: no comment) > ")
        terminal.type(f"too much{ENTER}")
        terminal.expect("✗ failed")
        assert terminal.ended() == 1
    assert till.ledger == []
    assert "reject by ada: too much" in till.call("runs", "show", run_id).out


def test_an_action_of_unknown_outcome_is_asked_about(till: Till) -> None:
    with Terminal("run", "Desk", "wire amount 5", folder=till.folder, environ=APP) as terminal:
        terminal.expect("retry / done / fail / cancel (Ctrl-D: later) > ")
        terminal.type(f"done{ENTER}")
        terminal.expect("the result, as JSON > ")
        terminal.type(f'"wired 5"{ENTER}')
        terminal.expect("└ wired 5")
        terminal.expect("✓ completed")
        assert terminal.ended() == 0


def test_a_text_that_is_left_out_is_asked_for(till: Till) -> None:
    with Terminal("run", "Parrot", folder=till.folder, environ=APP) as terminal:
        terminal.expect("parrot > ")
        terminal.type(f"good day{ENTER}")
        terminal.expect("good day")
        terminal.expect("✓ completed")
        assert terminal.ended() == 0


def test_following_goes_on_through_a_pause_until_the_run_has_ended(till: Till) -> None:
    run_id = till.waiting_run()
    with Terminal("runs", "events", run_id, "--follow", folder=till.folder, environ=APP) as terminal:
        terminal.expect('● pay(amount=5, to="***4711")')
        assert till.call("runs", "approve", run_id, "--resume").code == 0
        terminal.expect("└ paid 5")
        terminal.expect("language model.)")
        assert terminal.ended() == 0


def test_a_run_that_another_process_drives_is_left_to_it_and_cancelled_there(till: Till) -> None:
    with Terminal("run", "Desk", "wait", folder=till.folder, environ=APP) as terminal:
        terminal.expect("● wait()")
        (run_id,) = re.findall(r"run ([0-9a-f]{32})", terminal.text)
        assert till.call("runs", "resume", run_id).code == 5
        cancelled = till.call("runs", "cancel", run_id, "--reason", "wrong customer")
        assert cancelled.code == 5
        assert "run_conflict" not in cancelled.err
        terminal.expect("cancelled: wrong customer")
        assert terminal.ended() == 6


def test_a_question_that_somebody_else_answered_meanwhile_is_not_asked_again(till: Till) -> None:
    with Terminal("run", "Desk", "pay to DE-0815-4711 amount 5", folder=till.folder, environ=APP) as terminal:
        terminal.expect("(Ctrl-D: later) > ")
        (run_id,) = re.findall(r"run ([0-9a-f]{32})", terminal.text)
        assert till.call("runs", "approve", run_id, "--resume").code == 0
        terminal.type(f"reject{ENTER}")
        terminal.expect("no comment) > ")
        terminal.type(ENTER)
        terminal.expect("was answered 'approve' by")
        terminal.expect("pay(5, DE-0815-4711) gave paid 5")
        terminal.expect("✓ completed")
        assert terminal.ended() == 0
    assert till.ledger == ["DE-0815-4711 5"]


def test_ctrl_c_ends_following_and_leaves_the_run_alone(till: Till) -> None:
    run_id = till.waiting_run()
    with Terminal("runs", "events", run_id, "--follow", folder=till.folder, environ=APP) as terminal:
        terminal.expect("● pay(")
        terminal.type(CTRL_C)
        assert terminal.ended() == 130
        assert "Traceback" not in terminal.text
    assert till.call("runs", "show", run_id, "--json").json["run"]["status"] == "interrupted"


def test_help_fits_the_terminal(till: Till) -> None:
    for words in (["--help"], ["runs", "--help"], ["run", "--help"]):
        with Terminal(*words, folder=till.folder, columns=80) as terminal:
            assert terminal.ended() == 0
            assert max(map(len, terminal.text.splitlines())) <= 80
