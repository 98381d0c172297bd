"""Every command in a pseudo-terminal of 50, 80 and 200 columns, as the tree of commands has them.

A new command is tested without a change here, as long as its arguments have names that `SAMPLES` knows.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.behaviour.terminal import CTRL_C, Terminal
from tests.behaviour.till import Till

from pilotage.cli.commands.root import command

APP = {"PILOTAGE_APP": "till:app"}
# What fits into a narrow terminal fits into a wide one.
WIDTHS = (50, *(pytest.param(columns, marks=pytest.mark.exhaustive) for columns in (80, 200)))
# Commands that end at Ctrl-C, with what they print before.
ENDLESS = {"serve": "http://127.0.0.1:", "worker": "takes up runs"}
# Commands that need an answer of the person, an application without a run, or a row: they are called wrongly.
OPTIONS = {
    "serve": ["--port", "0"],
    "memory forget": ["--all"],
    "runs resolve": ["--skip", "tool:pay#1"],
}
# One interpreter calls two commands, so that everything is imported once, and forks for each one that counts.
DRIVER = """
import json, os, sys
from pilotage.cli.main import main
shown, sys.stdout = sys.stdout, open(os.devnull, "w")
main(["--help"])
main(["runs", "list"])
sys.stdout = shown
sys.modules.pop("till", None)
for number, words in enumerate(json.loads(sys.argv[1])):
    print(f"<<{number}>>", flush=True)
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin = open(os.devnull)
        code = main(words)
        sys.stdout.flush()
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    print(f"<<ended {os.waitstatus_to_exitcode(status)}>>", flush=True)
"""


def leaves(found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return every command with the words that call it."""
    inner = getattr(found, "commands", None)
    if inner is None:
        yield path, found
    for name, each in (inner or {}).items():
        yield from leaves(each, (*path, name))


TREE = dict(leaves(command()))


@pytest.fixture(scope="module")
def till(tmp_path_factory: pytest.TempPathFactory) -> Till:
    """An application with a run that waits and a file of heads."""
    till = Till(tmp_path_factory.mktemp("till"))
    till.waiting_run()
    (till.folder / "heads").write_text(till.call("audit", "heads").out)
    return till


@pytest.fixture
def samples(till: Till) -> dict[str, str]:
    """A value for each name of an argument or a required option."""
    run = till.call("runs", "list", "--json").json["runs"][0]["id"]
    return {
        **dict.fromkeys(("RUN", "RUN[:REQUEST]"), run),
        "AGENT": "clerk",
        "[TEXT]": "balance of bob",
        "TEXT": "a text",
        "[MODULE:NAME]": "till:app",
        "NAME": f"shop-{till.folder.name}",
        "FILE": "heads",
        "DECISION": "defer",
        "JSON": "{}",
        "ITEM": "no-such-item",
        "[ITEM]": "",
        "[QUERY]": "",
        "SERVER": "no-such-server",
        "[SERVER...]": "",
        "TOOL": "no-such-tool",
        "[TOOL...]": "",
        "[JSON]": "",
    }


def words_of(path: tuple[str, ...], found: Any, samples: dict[str, str]) -> list[str]:
    """Return a command with all that it needs."""
    words = list(path)
    for each in found.params:
        is_argument = each.param_type_name == "argument"
        name = each.metavar or each.name.upper()
        if is_argument or each.required:
            assert name in samples, f"{' '.join(path)}: add a sample for {name} to this test"
            if samples[name]:
                words += [samples[name]] if is_argument else [each.opts[0], samples[name]]
    return [*words, *OPTIONS.get(" ".join(path), [])]


def check_lines(text: str, columns: int, what: str) -> None:
    """No line for people is wider than the terminal, unless one word of it is; no stack is shown."""
    assert "Traceback" not in text, f"{what}\n{text}"
    for line in (each for each in text.splitlines() if not each.startswith("{")):
        longest = max((len(word) for word in line.split()), default=0)
        indent = len(line) - len(line.lstrip())
        assert len(line) <= columns or indent + longest > columns, f"{what} at {columns}: {line!r}"


def called(till: Till, commands: list[list[str]], columns: int) -> list[tuple[str, int]]:
    """Call commands one after the other in one terminal; return what each shows, and its exit code."""
    program = [sys.executable, "-c", DRIVER, json.dumps(commands)]
    with Terminal(folder=till.folder, columns=columns, environ=APP, program=program) as terminal:
        assert terminal.ended() == 0, terminal.text
        shown = re.findall(r"<<\d+>>\n(.*?)<<ended (-?\d+)>>\n", terminal.text, re.DOTALL)
    assert len(shown) == len(commands), terminal.text
    return [(text, int(code)) for text, code in shown]


@pytest.mark.slow
@pytest.mark.parametrize("columns", WIDTHS)
def test_the_help_of_every_command_fits(till: Till, columns: int) -> None:
    commands = [[*path, "--help"] for path in TREE]
    for words, (text, code) in zip(commands, called(till, commands, columns), strict=True):
        assert code == 0, text
        assert "<bool>" not in text
        assert "Options" in text
        check_lines(text, columns, " ".join(words))


@pytest.mark.slow
@pytest.mark.parametrize("columns", WIDTHS)
def test_the_output_of_every_command_fits(till: Till, samples: dict[str, str], columns: int) -> None:
    samples = {**samples, "NAME": f"shop-{columns}"}
    commands = [
        words_of(path, found, samples) for path, found in TREE.items() if " ".join(path) not in ENDLESS
    ]
    for words, (text, code) in zip(commands, called(till, commands, columns), strict=True):
        assert code in (0, 1, 2, 3, 4, 5, 6), text
        assert "PILOTAGE_TRACEBACK" not in text, f"an unexpected error of {words}: {text}"
        check_lines(text, columns, " ".join(words))


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("columns", WIDTHS)
def test_a_command_that_stays_fits_and_ends_at_ctrl_c(
    till: Till, samples: dict[str, str], name: str, columns: int
) -> None:
    words = words_of((name,), TREE[(name,)], samples)
    with Terminal(*words, folder=till.folder, columns=columns, environ=APP) as terminal:
        terminal.expect(ENDLESS[name])
        terminal.type(CTRL_C)
        assert terminal.ended() in (0, 130)
        assert "Traceback" not in terminal.text
