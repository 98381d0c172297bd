"""The official client in four versions through the same scenarios: what pages of today and of last year use.

Each scenario takes a `Version` and asserts what a person at the page sees. `KILLED` are begun before the server is
killed and go on after it was started again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agui.official_client import Report, Tabs, cache_folder, install
from tests.adapters.agui.samples import PICK
from tests.adapters.agui.sequence import fault_in
from tests.pages.rig import BankServer

OLD = {"PILOTAGE_AGUI_APPROVAL_CALLS": "true"}
"""Versions without interrupts get a question as a call of `hitl_approval`."""
SERVERS: Sequence[tuple[Sequence[str], Mapping[str, str]]] = [
    (["0.0.40"], {**OLD, "PILOTAGE_AGUI_EMIT_REASONING": "false"}),
    (["0.0.47"], OLD),
    (["0.0.59", "1.0.0"], {}),
]
"""Versions, and the settings that they need."""
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "talk-ag-ui.md"
PAINT = {**PICK, "name": "paint", "description": "Paint the walls of the page."}
_NUMBERS = count(1)


class Tab:
    """One tab of the client with a thread of its own, or with that of another tab."""

    def __init__(self, version: Version, thread: str, state: Any = None) -> None:
        self._tabs, self._name, self.thread = version.tabs, f"tab-{next(_NUMBERS)}", thread
        self._calls = version.calls.setdefault(thread, set())
        given = {"url": f"{version.bank.url}/teller", "threadId": thread, "state": state or {}}
        self._tabs.tell(self._name, open=given)

    def does(self, *, is_cut: bool = False, **step: Any) -> Report:
        """What the client has after a step; there was nothing to complain about, unless its stream was cut."""
        return self._checked(self._tabs.tell(self._name, step=step), is_cut=is_cut)

    def begins(self, until: str, **step: Any) -> None:
        """Begin a step, and go on when the stream has a text."""
        self._tabs.tell(self._name, step={**step, "until": until})

    def loses(self) -> None:
        """Cut the stream of the step that was begun; the run goes on without the page."""
        self._tabs.tell(self._name, cut=True)

    def ends(self, *, is_cut: bool = False) -> Report:
        """What the client has after the step that was begun."""
        return self._checked(self._tabs.tell(self._name, end=True), is_cut=is_cut)

    def _checked(self, report: Report, *, is_cut: bool) -> Report:
        assert bool(report["failures"]) is is_cut, report["failures"]
        if not is_cut:
            fault = fault_in(report["events"], thread_id=self.thread, calls=self._calls)
            assert fault is None, fault
            assert report["events"][-1]["type"] == "RUN_FINISHED"
        return report


@dataclass
class Version:
    """A version of the client, with a bank."""

    tabs: Tabs
    bank: BankServer
    gate: Path
    name: str
    calls: dict[str, set[str]] = field(default_factory=dict)
    """The calls that streams of a thread have begun: another tab may get their results."""

    def opened(self, thread: str | None = None, state: Any = None) -> Tab:
        """A page that is loaded; in a new thread, or in one that is there."""
        return Tab(self, thread or f"thread-{next(_NUMBERS)}", state)

    def paid(self, to: str) -> int:
        """How many payments a person of this version has got."""
        return self.bank.paid.count(f"5 to {to}-{self.name}")

    def asked(self, to: str) -> Tab:
        """A page with the question whether somebody is paid."""
        to = f"{to}-{self.name}"
        tab = self.opened()
        (question,) = tab.does(say=f"pay to {to} amount 5")["questions"]
        assert f"5 EUR to {to}?" in question["message"]
        assert f"5 to {to}" not in self.bank.paid
        return tab


def goes_on(tab: Tab) -> None:
    """The thread answers the next message."""
    assert "balance(savings) gave 100" in tab.does(say="balance account savings")["text"]


def chat(version: Version) -> None:
    tab = version.opened()
    assert "offline model" in tab.does(say="Hello there")["text"]
    goes_on(tab)


def tool_card(version: Version) -> None:
    report = version.opened().does(say="balance account savings")
    (call,) = [call for each in report["messages"] for call in each.get("toolCalls") or ()]
    (result,) = [each for each in report["messages"] if each["role"] == "tool"]
    assert (call["function"]["name"], result["toolCallId"], result["content"]) == (
        "balance",
        call["id"],
        "100",
    )
    assert report["calls"] == []


def approve(version: Version) -> None:
    tab = version.asked("Al")
    report = tab.does(decide={"approved": True})
    assert ("gave paid 5 to Al" in report["text"], report["questions"]) == (True, [])
    goes_on(tab)
    assert version.paid("Al") == 1


def reject(version: Version) -> None:
    tab = version.asked("Bo")
    assert tab.does(decide={"approved": False})["questions"] == []
    goes_on(tab)
    assert version.paid("Bo") == 0


def cancel(version: Version) -> None:
    tab = version.asked("Cy")
    assert tab.does(decide={"decision": "cancel"})["questions"] == []
    goes_on(tab)
    assert version.paid("Cy") == 0


def wrong_payload(version: Version) -> None:
    tab = version.asked("Di")
    (question,) = tab.does(decide={"colour": "red"})["questions"]
    assert "The answer was not accepted" in question["message"]
    report = tab.does(decide={"approved": True})
    assert ("gave paid 5 to Di" in report["text"], report["questions"]) == (True, [])
    goes_on(tab)
    assert version.paid("Di") == 1


def client_tool(version: Version) -> None:
    tab, tools = version.opened(), {"tools": [PAINT]}
    (call,) = tab.does(say="paint color teal", run=tools)["calls"]
    assert call["function"]["name"] == "paint"
    report = tab.does(results={"paint": "the walls are teal"}, run=tools)
    assert ("the walls are teal" in report["text"], report["calls"]) == (True, [])
    assert len([each for each in report["messages"] if each["role"] == "tool"]) == 1


def state_both_ways(version: Version) -> None:
    tab = version.opened(state={"account": "savings"})
    report = tab.does(say="chosen")
    assert "savings has 100" in report["text"]
    assert report["state"] == {"account": "savings", "balance": 100}


def reload(version: Version) -> None:
    before = version.asked("Ed")
    tab = version.opened(before.thread)
    report = tab.does()
    assert [each["content"] for each in report["messages"] if each["role"] == "user"] == [
        f"pay to Ed-{version.name} amount 5"
    ]
    assert len(report["questions"]) == 1
    assert "gave paid 5 to Ed" in tab.does(decide={"approved": True})["text"]
    goes_on(tab)
    assert version.paid("Ed") == 1


def message_while_asked(version: Version) -> None:
    tab = version.opened(version.asked("Fa").thread)
    assert len(tab.does(say="balance account main")["questions"]) == 1
    report = tab.does(decide={"approved": True})
    assert ("balance(main) gave 100" in report["text"], report["questions"]) == (True, [])
    assert version.paid("Fa") == 1


def message_under_way(version: Version) -> None:
    version.gate.unlink(missing_ok=True)
    first = version.opened()
    first.begins("three", say="count")
    second = version.opened(first.thread)
    second.begins("three", say="count again")
    version.gate.touch()
    assert "ten." in first.ends()["text"]
    report = second.ends()
    assert report["text"].count("ten.") >= 1
    assert "message_queued" in [each.get("name") for each in report["events"]]
    goes_on(second)


def message_after_a_cut(version: Version) -> None:
    version.gate.unlink(missing_ok=True)
    tab = version.opened()
    tab.begins("three", say="count")
    tab.loses()
    tab.begins("three", say="count again")
    version.gate.touch()
    shown = [each["content"] for each in tab.ends()["messages"] if each["role"] == "assistant"]
    assert [each.count("One two three four") for each in shown if each] in ([1], [1, 1])
    goes_on(tab)


def stop_without_reply(version: Version) -> None:
    tab = version.opened()
    report = tab.does(say="stay silent")
    assert "There is no complete answer" in report["text"]
    assert report["questions"] == []
    goes_on(tab)


def kill_in_mid_stream(version: Version) -> Generator[None]:
    version.gate.unlink(missing_ok=True)
    tab = version.opened()
    tab.begins("three", say="count")
    yield
    tab.ends(is_cut=True)
    version.gate.touch()
    report = tab.does(say="balance account main")
    assert "balance(main) gave 100" in report["text"]
    goes_on(tab)


def kill_while_asked(version: Version) -> Generator[None]:
    tab = version.asked("Gi")
    yield
    report = tab.does(decide={"approved": True})
    assert ("gave paid 5 to Gi" in report["text"], report["questions"]) == (True, [])
    goes_on(tab)
    assert version.paid("Gi") == 1


Scenario = Callable[[Version], None]
KilledScenario = Callable[[Version], Generator[None]]
SCENARIOS: Mapping[str, Scenario] = {
    "a chat of several turns": chat,
    "a tool card with its result": tool_card,
    "approve": approve,
    "reject": reject,
    "cancel": cancel,
    "an answer that does not fit, then one that does": wrong_payload,
    "a tool of the page": client_tool,
    "state both ways": state_both_ways,
    "a reload while a question is open": reload,
    "a message of a second tab while a question is open": message_while_asked,
    "a message of a second tab while a run is under way": message_under_way,
    "a message after a cut, while a run is under way": message_after_a_cut,
    "a message after a run that stopped without a reply": stop_without_reply,
}
KILLED: Mapping[str, KilledScenario] = {
    "`kill -9` of the server in mid stream": kill_in_mid_stream,
    "`kill -9` of the server while a question is open": kill_while_asked,
}
ASKING = ("question", "approve", "reject", "cancel", "answer")
"""Scenarios with these words need a call of `hitl_approval` where a version knows no interrupts."""


def test_the_table_of_the_docs_has_every_scenario_with_every_version() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.endswith((" yes |", " no |"))]
    expected: list[str] = []
    settings = [each for versions, each in SERVERS for _ in versions]
    for name in (*SCENARIOS, *KILLED):
        asks = any(word in name for word in ASKING)
        cells = ["by call" if asks and "PILOTAGE_AGUI_APPROVAL_CALLS" in each else "yes" for each in settings]
        expected.append(f"| {name} | {' | '.join(cells)} |")
    assert rows == expected


_OLDEST, _MIDDLE, _NEWEST = SERVERS


@pytest.fixture(
    params=[_OLDEST, pytest.param(_MIDDLE, marks=pytest.mark.exhaustive), _NEWEST],
    ids=lambda each: " and ".join(each[0]),
)
def versions(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, tmp_path: Path
) -> Iterator[Sequence[Version]]:
    """The versions of the client that one bank serves."""
    names, environ = request.param
    folder = install(cache_folder(pytestconfig))
    bank = BankServer(tmp_path, app="tests.adapters.agui.counting_bank:app", **environ)
    bank.start()
    tabs = [Tabs(folder, name) for name in names]
    yield [Version(each, bank, tmp_path / "gate.txt", name) for each, name in zip(tabs, names, strict=True)]
    for each in tabs:
        each.close()
    bank.stop()


@pytest.mark.slow
def test_every_scenario_goes_well_in_every_version(versions: Sequence[Version]) -> None:
    problems: dict[str, str] = {}

    def tried(name: str, scenario: Callable[[], object]) -> None:
        try:
            scenario()
        except (AssertionError, ValueError):
            problems.setdefault(name, traceback.format_exc(limit=-2))

    begun: list[tuple[str, Generator[None]]] = []
    for version in versions:
        for name, scenario in SCENARIOS.items():
            tried(f"{version.name}, {name}", partial(scenario, version))
    for version in versions:
        begun += [(f"{version.name}, {name}", steps(version)) for name, steps in KILLED.items()]
    for name, steps in begun:
        tried(name, partial(next, steps))
    versions[0].bank.kill()
    versions[0].bank.start()
    for name, steps in begun:
        with suppress(StopIteration):
            tried(name, partial(next, steps))
    assert not problems, "\n".join(f"{name}: {problem}" for name, problem in problems.items())
