"""What a person can get wrong: every message names it, and none is a stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.behaviour.till import Till


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def", "importing 'bad' failed: SyntaxError: "),
        (
            "import nowhere_at_all",
            "No module named 'nowhere_at_all'. 'bad' imports it: install it, or correct",
        ),
        (
            "from pilotage.jsonvalue import text_digest\n\ntext_digest(3)",
            "(bad.py, line 3).",
        ),
        ("x = 1 / 0", "importing 'bad' failed: ZeroDivisionError: division by zero (bad.py, line 1)."),
        (
            "import asyncio\nasyncio.get_running_loop()",
            "RuntimeError: no running event loop (bad.py, line 2).",
        ),
        ("raise SystemExit(7)", ""),
    ],
)
@pytest.mark.parametrize(
    "words", [("run", "bad:Agent", "x"), ("check", "bad:app"), ("runs", "list", "--app", "bad:app")]
)
def test_a_module_that_cannot_be_imported_says_why(
    till: Till, source: str, message: str, words: tuple[str, ...]
) -> None:
    (till.folder / "bad.py").write_text(source)
    called = till.call(*words)
    assert called.code == (2 if message else 7)
    assert message in called.err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py:Clerk", "'nowhere.py:Clerk': there is no file 'nowhere.py'."),
        ("json.py:Clerk", "there is another module 'json', "),
        ("till.py:Nobody", "'till.py:Nobody': module 'till' has no 'Nobody'."),
        ("..:Clerk", "importing '..' failed: "),
        ("a b:Clerk", "No module named 'a b'."),
        (":", "':' names no application."),
        ("till.py:", "'till.py:' names no application."),
        ("till.py", "'till.py' is a file. Name the agent in it, for example till.py:MyAgent."),
    ],
)
def test_an_agent_that_is_not_there_is_named(till: Till, target: str, message: str) -> None:
    (till.folder / "json.py").write_text("")
    called = till.call("run", target, "x")
    assert (called.code, called.out) == (2, "")
    assert message in called.err


def test_an_agent_is_named_by_its_file_also_in_a_package_and_from_elsewhere(till: Till) -> None:
    assert till.call("run", "till.py:Parrot", "hi", environ={"PILOTAGE_APP": ""}).out == "hi\n"
    package = till.folder / "shop" / "inner"
    package.mkdir(parents=True)
    (till.folder / "shop" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "agents.py").write_text(
        "from shop.inner.words import GREETING\nfrom till import *\ndel app\n"
        '@Agent(spec=AgentExecutionSpec(name="shy", recovery=DURABLE))\n'
        "class Shy:\n    def __init__(self, payments: Payments) -> None:\n        self.payments = payments\n"
        "    async def execute(self, text: str) -> str:\n        return GREETING + await self.payments.pay(text, 5)\n"
    )
    (package / "words.py").write_text('GREETING = "hi "\n')
    target = str(package / "agents.py") + ":Shy"
    called = till.call("run", target, "DE-1", environ={"PILOTAGE_APP": ""})
    assert called.code == 3, called.err
    run = called.err.split()[1]
    assert f"pilotage runs approve {run[:12]} --app {target}\n" in called.err
    assert till.call("runs", "approve", run, "--resume", "--app", target).out == "hi paid 5\n"


@pytest.mark.parametrize("group", [[], ["runs"], ["memory"], ["audit"], ["db"]])
def test_no_line_of_the_help_is_cut(till: Till, group: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, commands = till.call(*group, "--help").out.split("Commands:")
    assert [line for line in commands.splitlines() if line.endswith("...")] == []


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PILOTAGE_MODEL": "best"}, "'best' is no name of a model. Known are: anthropic:NAME, "),
        (
            {"PILOTAGE_MODEL_BASE_URL": "http://127.0.0.1:9/v1"},
            "PILOTAGE_MODEL_BASE_URL is set and PILOTAGE_MODEL_NAME is not. Name the model that the server serves.",
        ),
    ],
)
def test_a_wrong_setting_is_named_and_no_plugin_blamed(
    till: Till, variables: dict[str, str], message: str
) -> None:
    (till.folder / "plain.py").write_text(
        'from pilotage import Agent\n\n\n@Agent\nclass Plain:\n    """Help."""\n'
    )
    called = till.call("run", "plain.py:Plain", "hi", environ={"PILOTAGE_APP": "", **variables})
    assert called.code == 1
    assert called.err.startswith(message)
    assert "plugin" not in called.err


def test_python_runs_the_command_line_as_a_module(till: Till) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pilotage", "run", "till.py:Parrot", "hi"],
        cwd=till.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hi\n")


def test_modules_are_imported_before_the_event_loop_starts(till: Till) -> None:
    (till.folder / "eager.py").write_text(
        "import asyncio\nasyncio.run(asyncio.sleep(0))\nfrom till import *\n"
    )
    assert till.call("run", "eager:Clerk", "balance of bob", "--app", "eager:app").code == 0
    run = till.waiting_run()
    assert till.call("runs", "show", run, "--app", "eager:app").code == 0
    assert till.call("runs", "approve", run, "--app", "eager:app").code == 0
    assert till.call("doctor", "--app", "eager:app").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list"),
        ("runs", "approve", "abcdef"),
        ("run", "Desk", "x"),
        ("db", "check"),
        ("db", "upgrade"),
        ("audit", "heads"),
        ("memory", "list"),
        ("memory", "forget", "--all"),
    ],
)
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_file_that_is_no_database_is_named(till: Till, words: tuple[str, ...], is_folder: bool) -> None:
    file = till.folder / "notes.db"
    if is_folder:
        file.mkdir()
    else:
        file.write_text("these are notes, and no database at all\n" * 9)
    called = till.call(*words, environ={"PILOTAGE_DATABASE_URL": "sqlite:///notes.db"})
    assert called.code == 1
    assert "sqlite:///notes.db cannot be used: " in called.err
    assert "Check the file, or name another one in PILOTAGE_DATABASE_URL." in called.err


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "list", "--since", "999999999999d"),
        ("runs", "list", "--after", "nonsense"),
        ("runs", "show", "\ud800abc"),
        ("runs", "show", "' OR 1=1 --"),
        ("runs", "show", "x" * 100_000),
        ("runs", "send", "\x00\x00\x00\x00", "hi"),
        ("runs", "fork", "abcdef", "--at", "9" * 30),
        ("runs", "answer", ":::::", "approve"),
        ("audit", "check", "."),
        ("audit", "check", "no-such-file"),
        ("memory", "list", "--user", " "),
        ("memory", "show", ""),
        ("serve", "till:app", "--token", "=x"),
        ("worker", "till:app", "--grace", "-1"),
        ("worker", "till:app", "--grace", "nan"),
        ("new", "a" * 300),
        ("run", "Desk", "x", "--tenant", " "),
        ("run", "Desk", "x", "--as", "\ud800"),
        ("run", "Clerk", "x", "--conversation", " "),
        ("run", "Desk", "\ud800"),
    ],
)
def test_no_words_lead_to_a_stack(till: Till, words: tuple[str, ...], sqlite_template: Path) -> None:
    if not (till.folder / ".pilotage").exists():
        Till(till.folder, sqlite_template)
    called = till.call(*words)
    assert called.code in (0, 1, 2, 4), called
    assert called.err
    assert "PILOTAGE_TRACEBACK" not in called.err, called.err


def test_an_unexpected_error_is_one_line_and_its_stack_can_be_asked_for(till: Till) -> None:
    (till.folder / "loud.py").write_text(
        "from pilotage.container import ILifecycle\nfrom till import *\n"
        "@Pod\nclass Loud(ILifecycle):\n    async def start(self) -> None:\n        raise KeyError('shelf')\n"
        "app.add(Loud)\n"
    )
    called = till.call("run", "Clerk", "x", "--app", "loud:app")
    assert called.code == 1
    assert called.err == (
        f"KeyError: 'shelf' (at {till.folder / 'loud.py'}:6). To see the whole stack, set PILOTAGE_TRACEBACK=1.\n"
    )
    with pytest.raises(KeyError):
        till.call("run", "Clerk", "x", "--app", "loud:app", environ={"PILOTAGE_TRACEBACK": "1"})


def test_an_application_without_a_model_says_which_setting_is_missing(till: Till) -> None:
    (till.folder / "mute.py").write_text(
        'from till import *\napp = Application("mute").add(Clerk, Payments).load_plugins()\n'
    )
    called = till.call("run", "Clerk", "x", "--app", "mute:app", environ={"PILOTAGE_MODEL_BASE_URL": ""})
    assert called.code == 1
    assert "Name a server: PILOTAGE_MODEL_BASE_URL and PILOTAGE_MODEL_NAME" in called.err
