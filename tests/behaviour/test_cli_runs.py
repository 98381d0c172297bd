"""`pilotage runs`: looking at runs and acting on them, as an engineer on call does."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.behaviour.till import Till, steady

from pilotage import ApprovalDecision
from pilotage.agent import RecoveryDecision
from pilotage.cli.commands.runs import Decision
from pilotage.cli.exit_codes import ExitCode

PAYMENT = "pay to DE-0815-4711 amount 5"
RECOVERY = "wire amount 5"


@pytest.fixture
def till(tmp_path: Path, sqlite_template: Path) -> Till:
    return Till(tmp_path, sqlite_template)


def test_runs_are_listed_newest_first_and_chosen_by_status_agent_and_time(till: Till) -> None:
    first, second = till.waiting_run(), till.waiting_run()
    till.call("runs", "cancel", first, "--reason", "wrong customer")
    listed = till.call("runs", "list")
    assert [each.split() for each in steady(listed.out, FIRST=first, SECOND=second).splitlines()] == [
        "RUN AGENT STATUS STARTED INPUT ACTIVITY".split(),
        "SECOND desk waits for approval ... pay to DE-0815-4711 amount 5 Approve the call of tool 'pay'?".split(),
        "FIRST desk cancelled ... pay to DE-0815-4711 amount 5".split(),
    ]
    assert [each["id"] for each in till.call("runs", "list", "--json").json["runs"]] == [second, first]
    for words, found in (
        (("--status", "cancelled"), [first]),
        (("--status", "cancelled", "--status", "interrupted"), [second, first]),
        (("--agent", "desk"), [second, first]),
        (("--agent", "somebody-long-gone"), []),
        (("--since", "1h"), [second, first]),
        (("--since", "2999-01-01"), []),
        (("--tenant", "acme"), []),
    ):
        assert [each["id"] for each in till.call("runs", "list", "--json", *words).json["runs"]] == found, (
            words
        )
    assert till.call("runs", "list", "--tenant", "acme").out == "no runs\n"


def test_a_long_list_comes_in_pages(till: Till) -> None:
    first, second = till.waiting_run(), till.waiting_run()
    page = till.call("runs", "list", "--limit", "1", "--json").json
    assert [each["id"] for each in page["runs"]] == [second]
    rest = till.call("runs", "list", "--limit", "1", "--json", "--after", page["cursor"]).json
    assert [each["id"] for each in rest["runs"]] == [first]
    assert f"there are more: --after {page['cursor']}" in till.call("runs", "list", "--limit", "1").err


def test_one_page_says_how_a_run_stands_what_it_waits_for_and_what_it_did(till: Till) -> None:
    run = till.waiting_run("balance of bob, then pay to DE-0815-4711 amount 5")
    assert steady(till.call("runs", "show", run[:8]).out, RUN=run) == (
        "run      RUN\n"
        "agent    desk\n"
        "status   waits for approval\n"
        "started  ... (...)\n"
        "changed  ... (...)\n"
        "\n"
        "questions\n"
        "? Approve the call of tool 'pay'?\n"
        "    amount = 5\n"
        '    to = "***4711"\n'
        "  action    till.Payments:pay\n"
        "  risk      read, write, side_effect, network\n"
        "  by        ada\n"
        "  approvers any principal of the tenant\n"
        "  policy    built-in/1\n"
        "  pilotage runs approve RUN\n"
        "  pilotage runs reject RUN\n"
        "  or        modify --arguments '{…}', defer, cancel\n"
        "\n"
        "actions: 2 model calls, 1 tool call\n"
        "...  model call     model#1                    calls balance\n"
        '...  tool call      tool:balance#1             of="bob" → 7\n'
        "...  model call     model#2                    calls pay\n"
        '...  approval wait  tool:pay#1/approval  open  amount=5, to="***4711"\n'
    )


def test_an_answer_is_stored_where_the_application_lacks_the_agent(till: Till) -> None:
    run = till.waiting_run()
    text = "from pilotage import Application\n\napp = Application('other').load_plugins()\n"
    (till.folder / "other.py").write_text(text)
    approved = till.call("runs", "approve", run, "--app", "other:app")
    assert approved.code == ExitCode.DONE
    assert "stored; the application here has no agent 'desk'." in approved.err
    assert f"pilotage runs resume {run[:12]} --app MODULE:NAME" in approved.err
    assert till.call("runs", "resume", run).code == ExitCode.DONE
    assert till.ledger == ["DE-0815-4711 5"]


def test_an_approved_run_is_resumed_and_pays_once(till: Till) -> None:
    run = till.waiting_run()
    approved = till.call("runs", "approve", run[:6], "--comment", "known customer", "--no-resume")
    assert (approved.code, approved.out) == (0, "approve: Approve the call of tool 'pay'?\n")
    assert approved.err == (f"stored; a worker continues the run, or: pilotage runs resume {run[:12]}\n")
    waiting = steady(till.call("runs", "show", run).out, RUN=run)
    assert "answered; waits for a worker\n  approve by ada ...: Approve the call" in waiting
    assert "questions\n" not in waiting
    resumed = till.call("runs", "resume", run[:6])
    assert resumed.code == 0
    assert resumed.out.startswith("pay(5, DE-0815-4711) gave paid 5\n")
    assert "● pay\n  └ paid 5\n" in resumed.err
    assert till.ledger == ["DE-0815-4711 5"]
    page = till.call("runs", "show", run).out
    assert "approve by ada: known customer" in page
    assert "result\npay(5, DE-0815-4711) gave paid 5\n" in page
    assert till.call("runs", "resume", run).code == 0  # its result, and nothing is paid again
    assert till.ledger == ["DE-0815-4711 5"]


def test_questions_are_listed_with_the_commands_that_answer_them(till: Till) -> None:
    run = till.waiting_run()
    asked = till.call("runs", "questions", run[:8])
    assert asked.code == 0
    assert asked.out.startswith("? Approve the call of tool 'pay'?\n")
    assert f"  pilotage runs approve {run[:12]}\n" in asked.out
    (question,) = till.call("runs", "questions", run, "--json").json["questions"]
    assert (question["run_id"], question["arguments"]) == (run, {"amount": 5, "to": "***4711"})
    assert till.call("runs", "answer", question["id"], "approve", "--resume").code == 0
    assert till.ledger == ["DE-0815-4711 5"]
    assert till.call("runs", "questions", run).out == f"run {run} is completed and has no open question\n"
    assert till.call("runs", "questions", run, "--json").json == {"run_id": run, "questions": []}


@pytest.mark.parametrize(
    ("goal", "words", "code", "status", "ledger"),
    [
        (PAYMENT, ("approve", "--comment", "known"), 0, "completed", ["DE-0815-4711 5"]),
        (
            PAYMENT,
            ("modify", "--arguments", '{"to": "DE-0815-4711", "amount": 2}'),
            0,
            "completed",
            ["DE-0815-4711 2"],
        ),
        (PAYMENT, ("reject",), 1, "failed", []),
        (PAYMENT, ("defer",), 3, "interrupted", []),
        (PAYMENT, ("cancel",), 6, "cancelled", []),
        (RECOVERY, ("done", "--result", '"wired 5"'), 0, "completed", []),
        (RECOVERY, ("fail",), 1, "failed", []),
        (RECOVERY, ("cancel",), 6, "cancelled", []),
    ],
)
def test_an_answer_of_every_kind_is_one_command(
    till: Till, goal: str, words: tuple[str, ...], code: int, status: str, ledger: list[str]
) -> None:
    run = till.waiting_run(goal)
    assert till.call("runs", "answer", run, *words, "--resume").code == code
    assert till.call("runs", "show", run, "--json").json["run"]["status"] == status
    assert till.ledger == ledger


def test_the_words_of_an_answer_are_those_of_the_questions() -> None:
    assert {each.value for each in Decision} == {
        each.value for kind in (ApprovalDecision, RecoveryDecision) for each in kind
    }


def test_resuming_a_run_that_has_ended_prints_its_result(till: Till) -> None:
    run = till.waiting_run()
    till.call("runs", "answer", run, "approve", "--resume")
    again = till.call("runs", "resume", run)
    assert again.code == 0
    assert again.out.startswith("pay(5, DE-0815-4711) gave paid 5\n")
    assert till.ledger == ["DE-0815-4711 5"]


def test_a_question_may_be_answered_and_the_run_driven_in_one_go(till: Till) -> None:
    run = till.waiting_run()
    called = till.call(
        "runs",
        "modify",
        run,
        "--arguments",
        '{"to": "DE-0815-4711", "amount": 2}',
        "--resume",
        "--as",
        "grace",
    )
    assert called.code == 0
    assert till.ledger == ["DE-0815-4711 2"]
    assert "modify by grace" in till.call("runs", "show", run).out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("modify", "RUN", "--arguments", "five"), 2, "--arguments is no JSON: "),
        (("modify", "RUN", "--arguments", '{"to": "x"}'), 2, "The request stays open."),
        (("retry", "RUN"), 2, "Use one of: approve, reject, modify, defer, cancel."),
        (("answer", "RUN", "modify"), 2, "The request stays open."),
        (
            ("answer", "RUN", "done", "--result", "5"),
            2,
            "Use one of: approve, reject, modify, defer, cancel.",
        ),
        (("answer", "RUN", "modify", "--arguments", "five"), 2, "--arguments is no JSON: "),
        (("answer", "RUN", "perhaps"), 2, "'perhaps'"),
        (("approve", "RUN:ffff"), 2, "waits for no answer to "),
        (
            ("approve", "ffffffff"),
            4,
            "there is no run 'ffffffff' in tenant 'default'. Name another one with --tenant.",
        ),
        (("approve", "RUN", "--tenant", "acme"), 4, "in tenant 'acme'"),
        (("approve", "fff"), 2, "'fff' is too short for a run. Give 4 characters or more."),
    ],
)
def test_an_answer_that_cannot_be_taken_leaves_the_question_open(
    till: Till, words: tuple[str, ...], code: int, message: str
) -> None:
    run = till.waiting_run()
    called = till.call("runs", *(each.replace("RUN", run) for each in words))
    assert called.code == code
    assert message in called.err
    assert till.call("runs", "show", run, "--json").json["questions"]
    assert till.ledger == []


def test_an_approval_lets_the_run_go_on(till: Till) -> None:
    run = till.waiting_run()
    done = till.call("runs", "approve", run[:6])
    assert (done.code, done.out.startswith("pay(5, DE-0815-4711) gave paid 5\n")) == (0, True)
    assert "approve: Approve the call of tool 'pay'?\n" in done.err
    assert till.ledger == ["DE-0815-4711 5"]


def test_for_a_program_an_answer_is_only_stored(till: Till) -> None:
    run = till.waiting_run()
    stored = till.call("runs", "approve", run, "--json").json
    assert (stored["is_waiting"], stored["decision"], till.ledger) == (True, "approve", [])


def test_a_list_marks_runs_that_no_process_drives(till: Till) -> None:
    killed = subprocess.Popen(
        [sys.executable, "-m", "pilotage.cli.main", "run", "till:Desk", "wait", "--conversation", "talk-1"],
        cwd=till.folder,
        env={**os.environ, "PILOTAGE_APP": "till:app", "PILOTAGE_AS": "ada"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not any(each["status"] == "active" for each in till.call("runs", "list", "--json").json["runs"]):
        assert killed.poll() is None
    (listed,) = till.call("runs", "list", "--json").json["runs"]
    assert (listed["input"], listed["conversation_id"], listed["is_driven"]) == ("wait", "talk-1", True)
    killed.kill()
    killed.wait()
    if not sys.platform.startswith("linux"):
        # That the process is dead cannot be proven there: as if the time of its lease had run out.
        with closing(sqlite3.connect(till.folder / ".pilotage" / "pilotage.db")) as database, database:
            database.execute("DELETE FROM pilotage_leases")
    (listed,) = till.call("runs", "list", "--json").json["runs"]
    assert listed["is_driven"] is False
    page = till.call("runs", "list").out
    assert "active, no process drives it" in page
    assert "CONVERSATION" in page
    assert "talk-1" in page


def test_a_rejected_run_fails_and_a_deferred_one_waits(till: Till) -> None:
    rejected, deferred = till.waiting_run(), till.waiting_run()
    assert till.call("runs", "reject", rejected, "--resume").code == 1
    assert till.call("runs", "defer", deferred, "--resume").code == 3
    listed = till.call("runs", "list").out
    assert "failed: approval rejected" in listed
    assert "waits for approval, deferred" in listed


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (("done", "--result", '"wired 5"'), 0, "completed"),
        (("retry",), 3, "interrupted"),  # it breaks again
        (("fail",), 1, "failed"),
        (("cancel",), 0, "cancelled"),
    ],
)
def test_an_action_of_unknown_outcome_is_settled_by_a_command(
    till: Till, words: tuple[str, ...], code: int, status: str
) -> None:
    run = till.waiting_run(RECOVERY)
    page = till.call("runs", "show", run).out
    assert "status   waits: outcome unknown\n" in page
    assert f"  pilotage runs retry {run[:12]}\n" in page
    assert f"  pilotage runs done {run[:12]} --result '…'\n" in page
    decision, *options = words
    resumes = [] if decision == "cancel" else ["--resume"]
    assert till.call("runs", decision, run, *options, *resumes).code == code
    assert till.call("runs", "show", run, "--json").json["run"]["status"] == status


def test_a_result_that_the_tool_could_not_have_given_is_refused(till: Till) -> None:
    run = till.waiting_run(RECOVERY)
    called = till.call("runs", "done", run, "--result", "5")
    assert called.code == 2
    assert "'wire' does not give such a result" in called.err


def test_events_are_read_from_the_beginning_and_from_a_cursor(till: Till) -> None:
    run = till.waiting_run()
    told = till.call("runs", "events", run)
    assert (told.code, told.out, told.err) == (0, '● pay(amount=5, to="***4711")\n', "")
    events = till.call("runs", "events", run, "--json").lines
    assert events[0]["kind"] == "run_started"
    assert events[-1]["kind"] == "run_paused"
    rest = till.call("runs", "events", run, "--json", "--after", events[-2]["cursor"]).lines
    assert rest == events[-1:]
    assert till.call("runs", "events", run, "--after", "nonsense").code == 2


def test_following_a_run_that_has_ended_ends(till: Till) -> None:
    run = till.waiting_run()
    till.call("runs", "approve", run, "--resume")
    told = till.call("runs", "events", run, "--follow")
    assert told.code == 0
    assert told.out.endswith("language model.)\n")


def test_a_record_is_verified_and_a_changed_one_is_found(till: Till) -> None:
    run = till.waiting_run()
    assert till.call("runs", "verify", run).out.endswith(" rows, in order\n")
    assert till.call("runs", "verify", run, "--json").json["verified"] is True
    database = sqlite3.connect(till.folder / ".pilotage" / "pilotage.db")
    with database:
        database.execute("UPDATE pilotage_journal SET view = '{\"result\": 8}' WHERE place % 4294967296 = 3")
    database.close()
    broken = till.call("runs", "verify", run)
    assert broken.code == 1
    assert "row 3" in broken.err
    assert "does not follow from the row before it" in broken.err


def test_a_damaged_run_is_named_and_the_others_are_listed(till: Till) -> None:
    damaged, other = till.waiting_run(), till.waiting_run()
    database = sqlite3.connect(till.folder / ".pilotage" / "pilotage.db")
    with database:
        database.execute("UPDATE pilotage_runs SET epoch = 7 WHERE run_id = ?", (damaged,))
    database.close()
    listed = till.call("runs", "list")
    assert listed.code == 1
    assert other in listed.out
    assert damaged not in listed.out
    problem = f"run '{damaged}' is not stored as it was written. Restore it from a backup."
    assert f"damaged: {problem}" in listed.err
    page = till.call("runs", "list", "--json")
    assert (page.code, page.err) == (1, "")
    assert [each["id"] for each in page.json["runs"]] == [other]
    assert page.json["damaged"] == [{"id": damaged, "problem": problem}]
    shown = till.call("runs", "show", damaged[:12])
    assert (shown.code, shown.err) == (2, f"{problem}\n")
    assert till.call("runs", "show", other[:12]).code == 0


def test_a_fork_goes_its_own_way(till: Till) -> None:
    run = till.waiting_run()
    till.call("runs", "approve", run, "--resume")
    forked = till.call("runs", "fork", run, "--at", "2", "--json").json["run"]
    assert forked["id"] != run
    assert till.call("runs", "resume", forked["id"]).code == 3  # it asks anew
    assert till.ledger == ["DE-0815-4711 5"]


def test_cancelling_a_run_that_has_ended_says_so(till: Till) -> None:
    run = till.waiting_run()
    assert till.call("runs", "cancel", run).out == f"run {run} cancelled\n"
    again = till.call("runs", "cancel", run)
    assert (again.code, again.out) == (0, f"run {run} had ended already: cancelled\n")


def test_a_message_that_an_agent_does_not_take_is_refused(till: Till) -> None:
    called = till.call("runs", "send", till.waiting_run(), "hello")
    assert called.code == 2
    assert "does not accept 'user_message' signals" in called.err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["hello", "--input", "note-1", "--revision", "2"], "does not accept 'steering_instruction' signals"),
        (["--input", "note-1", "--withdraw"], "does not accept 'steering_instruction' signals"),
        (["hello", "--draft"], "a revision names its instruction: --input ID"),
        (["--input", "note-1"], "the message is missing"),
        ([], "the message is missing"),
    ],
)
def test_a_revision_of_an_instruction_names_its_input(till: Till, given: list[str], words: str) -> None:
    called = till.call("runs", "send", till.waiting_run(), *given)
    assert called.code == 2
    assert words in called.err


def test_looking_works_without_the_application_and_acting_says_that_it_needs_it(till: Till) -> None:
    run = till.waiting_run()
    alone = {"PILOTAGE_APP": ""}
    assert f"{run}  desk" in till.call("runs", "list", environ=alone).out
    assert till.call("runs", "show", run, environ=alone).code == 0
    called = till.call("runs", "approve", run, environ=alone)
    assert called.code == 2
    assert "Name it with --app MODULE:NAME, in PILOTAGE_APP, or as app in [tool.pilotage]" in called.err


@pytest.mark.parametrize("app", ["", "till:app"])
def test_looking_makes_no_database(tmp_path: Path, app: str) -> None:
    till = Till(tmp_path)
    called = till.call("runs", "list", environ={"PILOTAGE_APP": app})
    assert called.code == 4
    assert "there is no database '.pilotage/pilotage.db' here, so there are no runs." in called.err
    assert not (till.folder / ".pilotage").exists()


def test_looking_brings_no_tables_up_to_date(till: Till) -> None:
    till.waiting_run()
    database = sqlite3.connect(till.folder / ".pilotage" / "pilotage.db")
    with database:
        database.execute("UPDATE pilotage_schema SET version_num = '0000'")
    called = till.call("runs", "list")
    assert (called.code, "Run: pilotage db upgrade." in called.err) == (1, True)
    assert database.execute("SELECT version_num FROM pilotage_schema").fetchall() == [("0000",)]
    database.close()


def test_looking_starts_nothing_of_the_application_but_its_store(till: Till) -> None:
    run = till.waiting_run()
    (till.folder / "loud.py").write_text(
        "from pilotage.container import ILifecycle\n"
        "from till import *\n"
        "@Pod\n"
        "class Loud(ILifecycle):\n"
        "    async def start(self) -> None:\n"
        '        raise RuntimeError("somebody started me")\n'
        "app.add(Loud)\n"
    )
    assert till.call("runs", "show", run, "--app", "loud:app").code == 0
    started = till.call("runs", "approve", run, "--app", "loud:app")
    assert (started.code, "RuntimeError: somebody started me (at " in started.err) == (1, True)


def test_a_project_says_which_application_is_meant(till: Till) -> None:
    run = till.waiting_run()
    (till.folder / "pyproject.toml").write_text('[tool.pilotage]\napp = "till:app"\n')
    assert till.call("runs", "approve", run, environ={"PILOTAGE_APP": ""}).code == 0
    (till.folder / "pyproject.toml").write_text("[tool.pilotage]\napp = 3\n")
    assert "app in [tool.pilotage] is 3" in till.call("runs", "list", environ={"PILOTAGE_APP": ""}).err


def test_questions_of_children_are_answered_one_by_one_and_the_run_above_goes_on(till: Till) -> None:
    called = till.call("run", "Boss", "DE-0815-0001 DE-0815-0002")
    boss = called.err.split()[1]
    assert called.code == 3
    assert "  [cashier] begins\n" in called.err
    shown = till.call("runs", "show", boss, "--json").json
    first, second = (question["run_id"] for question in shown["questions"])
    page = till.call("runs", "show", boss).out
    assert f"  pilotage runs approve {first[:12]}\n" in page
    assert f"  pilotage runs approve {second[:12]}\n" in page
    several = till.call("runs", "approve", boss)
    assert (several.code, f"run {boss!r} asks 2 questions. Name one of them: {first}:" in several.err) == (
        2,
        True,
    )
    assert till.call("runs", "approve", first[:12], "--no-resume").err == (
        f"stored; a worker continues the run, or: pilotage runs resume {boss[:12]}\n"
    )
    done = till.call("runs", "approve", second[:12])
    assert (done.code, done.out) == (0, "paid 5, paid 5\n")
    assert sorted(till.ledger) == ["DE-0815-0001 5", "DE-0815-0002 5"]
    assert f"part of  {boss}\n" in till.call("runs", "show", first).out


def test_runs_of_a_tenant_are_found_by_nobody_else(till: Till) -> None:
    called = till.call("run", "Desk", "pay to DE-0815-4711 amount 5", "--tenant", "acme")
    run = called.err.split()[1]
    assert f"pilotage runs approve {run[:12]} --tenant acme\n" in called.err
    assert till.call("runs", "show", run).code == 4
    assert till.call("runs", "show", run, environ={"PILOTAGE_TENANT": "acme"}).code == 0
    assert till.call("runs", "approve", run, "--tenant", "acme", "--resume").code == 0


def test_a_run_whose_key_is_away_is_shown_as_far_as_it_can_be_read_and_no_key_is_made(till: Till) -> None:
    run = till.waiting_run()
    key = till.folder / ".pilotage" / "pilotage.key"
    kept = key.rename(till.folder / "kept.key")
    shown = till.call("runs", "show", run)
    assert shown.code == 0
    assert "status   waits for approval\n" in shown.out
    assert '  amount=5, to="***4711"\n' in shown.out
    assert "questions\n" not in shown.out
    assert "is sealed with the key " in shown.out
    assert not key.exists()
    kept.rename(key)
    assert "questions\n" in till.call("runs", "show", run).out


def test_a_step_that_was_repeated_after_a_crash_is_labelled_and_counted(till: Till) -> None:
    (till.folder / "flow.py").write_text(
        "import os\n"
        "from pilotage.runtime import LeaseSettings, step\n"
        "from till import *\n"
        "@Agent(spec=AgentExecutionSpec(recovery=DURABLE))\n"
        "class Flow:\n"
        "    async def execute(self, text: str) -> str:\n"
        '        quote = await step("quote", lambda: "7", returns=str)\n'
        '        return quote + await step("mail", self.mail, returns=str, idempotency=Idempotency.IDEMPOTENT)\n'
        "    async def mail(self) -> str:\n"
        '        if not Path("died").exists():\n'
        '            Path("died").touch()\n'
        "            os._exit(9)\n"
        '        return " sent"\n'
        'app = Application("flow").add(Flow, LeaseSettings(seconds=1)).load_plugins()\n'
    )
    command = [sys.executable, "-m", "pilotage", "run", "flow:Flow", "x"]
    died = subprocess.run(command, cwd=till.folder, capture_output=True, text=True, check=False)  # noqa: S603
    assert died.returncode == 9
    run = died.stderr.split()[1]
    code = ExitCode.CONFLICT
    while code == ExitCode.CONFLICT:  # until the lease of the dead process is over
        resumed = till.call("runs", "resume", run, "--app", "flow:app")
        code = ExitCode(resumed.code)
    assert (code, resumed.out) == (0, "7 sent\n")
    page = till.call("runs", "show", run, "--app", "flow:app").out
    assert "\nactions: 2 steps, 1 retried\n" in page
    assert "step:mail#1 (retried after a crash)" in page
    assert "step:quote#1  " in page


def test_a_run_that_was_erased_is_shown_as_such(till: Till) -> None:
    run = till.waiting_run()
    till.call("runs", "approve", run, "--resume")
    (till.folder / "erase.py").write_text(
        "import asyncio, sys\n"
        "from pilotage.agent.ports.journal import RunKey\n"
        "from pilotage.agent.ports.repositories import IAgentRetention\n"
        "from till import app\n"
        "async def main():\n"
        "    async with app:\n"
        '        await app.get(IAgentRetention).erase(RunKey("default", sys.argv[1]))\n'
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "erase.py", run], cwd=till.folder, check=True)  # noqa: S603
    shown = till.call("runs", "show", run)
    assert shown.code == 0
    assert "status   completed\n" in shown.out
    assert "erased" in shown.out
    assert "4711" not in shown.out
    assert till.call("runs", "events", run).code == 2
    assert till.call("runs", "verify", run).code == 0
