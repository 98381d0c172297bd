"""`pilotage run` with pipes around it: the answer on standard output, everything else aside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.behaviour.till import Till, steady


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


def test_a_pipe_carries_the_answer_and_nothing_else(till: Till) -> None:
    called = till.call("run", "Clerk", "balance of bob")
    assert called.code == 0
    assert called.out == "balance(bob) gave 7\n(Pilotage's offline model: rules, not a language model.)\n"
    assert called.err == '● balance(of="bob")\n  └ 7\n✓ completed: 2 model calls, 1 tool call, 99 tokens\n'


def test_text_comes_from_standard_input_where_it_is_a_dash(till: Till) -> None:
    command = [sys.executable, "-m", "pilotage.cli.main", "run", "till:Parrot", "-"]
    done = subprocess.run(  # noqa: S603 - our own command
        command, cwd=till.folder, input="good day\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "good day\n")


def test_an_agent_that_takes_no_text_is_given_json(till: Till) -> None:
    called = till.call("run", "Packer", '{"number": "A-17", "pieces": 6}')
    assert called.code == 0
    assert called.json == {"order": "A-17", "boxes": 3}
    assert called.err.startswith("· Packing\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Packer", "six pieces"), "Packer takes order: Order. Give it as JSON: "),
        (("Packer", '{"number": 17}'), "Packer: input 'order' does not fit: "),
        (("Packer",), "Packer: input 'order' does not fit: "),
        (("Clerk",), "Clerk has no execute() and needs an instruction. Give it a text."),
        (("Nobody", "x"), "application 'till' has no agent 'Nobody'. It has: desk, clerk, packer, parrot, "),
        (("till:Payments", "x"), "'till:Payments' is no agent. Name a class with @Agent above it."),
        (("till:Nobody", "x"), "'till:Nobody': module 'till' has no 'Nobody'."),
    ],
)
def test_what_cannot_run_is_told_with_the_way_out(till: Till, words: tuple[str, ...], message: str) -> None:
    called = till.call("run", *words)
    assert (called.code, called.out) == (2, "")
    assert called.err.startswith(message)


def test_a_run_that_waits_says_for_what_and_how_to_go_on(till: Till) -> None:
    called = till.call("run", "Desk", "pay to DE-0815-4711 amount 5")
    run_id = called.err.split()[1]
    assert called.code == 3
    assert called.out == ""
    assert steady(called.err, RUN=run_id) == (
        "run RUN\n"
        '● pay(amount=5, to="***4711")\n'
        "? Approve the call of tool 'pay'?\n"
        "    amount = 5\n"
        '    to = "***4711"\n'
        "  risk      reads data, changes data, has an effect that cannot be taken back by the application, "
        "reaches other systems\n"
        "  action    till.Payments:pay\n"
        "  by        ada\n"
        "  approvers any principal of the tenant\n"
        "  policy    built-in/1\n"
        "  pilotage runs approve RUN\n"
        "  pilotage runs reject RUN\n"
        "  or        modify --arguments '{…}', defer, cancel\n"
        "details: pilotage runs show RUN\n"
    )
    assert till.ledger == []


def test_what_is_to_be_typed_next_names_the_application_that_was_named(till: Till) -> None:
    called = till.call("run", "till:Desk", "pay to DE-0815-4711 amount 5", environ={"PILOTAGE_APP": ""})
    run_id = called.err.split()[1]
    assert f"pilotage runs approve {run_id[:12]} --app till:app\n" in called.err


def test_an_agent_without_an_application_gets_one_made_for_it(till: Till) -> None:
    (till.folder / "alone.py").write_text("from till import *\ndel app\n")
    called = till.call("run", "alone:Clerk", "balance of bob", environ={"PILOTAGE_APP": ""})
    assert (called.code, called.out.splitlines()[0]) == (0, "balance(bob) gave 7")
    kept = till.call("run", "alone:Desk", "pay to DE-0815-4711 amount 5", environ={"PILOTAGE_APP": ""})
    assert kept.code == 3
    run_id = kept.err.split()[1]
    resumed = till.call("runs", "approve", run_id, "--resume", "--app", "alone:Desk")
    assert resumed.code == 0
    assert till.ledger == ["DE-0815-4711 5"]


def test_programs_get_events_and_the_result_as_lines_of_json(till: Till) -> None:
    called = till.call("run", "Packer", '{"number": "A-17", "pieces": 6}', "--json")
    *events, last = called.lines
    assert [each["kind"] for each in events] == [
        "run_started",
        "step_started",
        "step_finished",
        "run_finished",
    ]
    assert {each["agent"] for each in events} == {"packer"}
    assert last["kind"] == "result"
    assert last["run"]["status"] == "completed"
    assert last["output"] == {"order": "A-17", "boxes": 3}
    assert called.err == ""


def test_programs_are_told_what_a_run_waits_for(till: Till) -> None:
    called = till.call("run", "Desk", "pay to DE-0815-4711 amount 5", "--json")
    last = called.lines[-1]
    assert called.code == 3
    assert last["run"]["reason"] == "approval_required"
    (question,) = last["questions"]
    assert question["arguments"] == {"to": "***4711", "amount": 5}
    assert question["allowed_decisions"] == ["approve", "reject", "modify", "defer", "cancel"]
    assert [each["cursor"] for each in called.lines[:-1]] == sorted(
        (each["cursor"] for each in called.lines[:-1]),
        key=lambda each: [int(part) for part in each.split(".")],
    )


def test_a_worker_of_the_application_stays_off_while_a_command_has_it(till: Till) -> None:
    waiting = till.waiting_run()
    till.call("runs", "approve", waiting, "--no-resume")
    (till.folder / "busy.py").write_text(
        "from pilotage.runtime import WorkerSettings\nfrom till import *\napp.add(WorkerSettings())\n"
    )
    assert till.call("run", "busy:Clerk", "balance of bob", "--app", "busy:app").code == 0
    assert till.ledger == []
    assert till.call("runs", "show", waiting, "--json").json["run"]["status"] == "interrupted"


def test_an_application_that_cannot_start_says_everything(till: Till) -> None:
    (till.folder / "broken.py").write_text(
        'from till import *\napp = Application("broken").add(Desk, OfflineModel()).load_plugins()\n'
    )
    called = till.call("run", "Desk", "x", "--app", "broken:app")
    assert called.code == 1
    assert "Desk -> Payments: nothing provides Payments." in called.err
