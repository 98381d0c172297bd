"""The benchmarks run: as little as possible of each, and no figure is compared with anything."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from benchmarks import floor, instructions, plots, semantic_floor
from benchmarks.agents import Asking, Declared
from benchmarks.comparison import PEERS, figures_of
from benchmarks.page import page_of
from benchmarks.run import SUITES
from benchmarks.targets import AT_LEAST, AT_MOST, target_of
from benchmarks.timing import SMALLEST

from pilotage import Application, RunAgentInput
from pilotage.runtime import AgentRunner


@pytest.fixture(scope="module", autouse=True)
def what_other_tests_left_is_frozen() -> None:
    """Keep full collections cheap: every suite asks for dozens, and other tests of this process left objects."""
    gc.collect()
    gc.freeze()


@pytest.mark.slow
@pytest.mark.parametrize("suite", [suite for suite in SUITES if suite != "comparison"])
def test_a_suite_measures_something(suite: str) -> None:
    figures = import_module(f"benchmarks.{suite}").measure(SMALLEST)
    assert figures
    assert all(isinstance(figure, float | int) for figure in figures.values())


@pytest.mark.slow
@pytest.mark.parametrize(("module", "kind"), [("pilotage_peer", ""), ("pilotage_durable_peer", "durable ")])
def test_ours_is_measured_as_peers_are(module: str, kind: str) -> None:
    figures = figures_of("pilotage", Path(sys.executable), module, SMALLEST)
    assert any(name.endswith(f": {kind}one run / floor") for name in figures)


@pytest.mark.parametrize("module", PEERS.values())
def test_every_peer_has_a_script(module: str) -> None:
    script = Path(import_module("benchmarks.peers.measuring").__file__ or "").with_name(f"{module}.py")
    compile(script.read_text(), script, "exec")


async def test_the_floor_does_a_run() -> None:
    events = [event async for event in floor.events(2)]
    assert [event["kind"] for event in events] == [
        "run_started",
        *["call", "result"] * 2,
        "token",
        "run_finished",
    ]


async def test_the_semantic_floor_makes_the_events_of_a_run_of_ours() -> None:
    straight = [type(event) async for event in semantic_floor.events(RunAgentInput("straight", "2"))]
    async with Application("floor").add(Declared, Asking()).load_plugins(include=["runtime"]) as app:
        runner = AgentRunner.for_agent_instance(app.get(Declared))
        assert straight == [type(event) async for event in runner.run_events(RunAgentInput("ours", "2"))]


async def test_the_floor_with_a_journal_has_a_row_before_and_after_each_action() -> None:
    assert len(await floor.run_kept(3)) == 2 * (4 + 3)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("one run: commits", 4, ("at most 4", True)),
        ("one run: commits", 5, ("at most 4", False)),
        ("200 runs side by side, runs/s", 6_999, ("at least 7,000", False)),
        ("one run: rows", 9, ("", True)),
    ],
)
def test_a_target_is_met_or_not(name: str, value: float, expected: tuple[str, bool]) -> None:
    assert target_of(name, value) == expected


def test_the_page_has_a_table_for_each_suite_and_a_column_for_each_framework() -> None:
    rows = [
        {"name": f"{who}: one run / floor", "value": 7.0, "target": "", "met": True}
        for who in ("ours 1", "theirs 2")
    ]
    missed = [{"name": "one run: commits", "value": 5.0, "target": "at most 4", "met": False}]
    page = page_of(
        {"on": {"python": "3", "machine": "any"}, "results": {"durable": missed, "comparison": rows}}
    )
    assert "| one run: commits | 5 | at most 4: **not met** |" in page
    assert "| what | ours 1 | theirs 2 |" in page
    assert "| one run / floor | 7 | 7 |" in page


def test_a_scenario_is_drawn_with_a_bar_for_each_framework_and_ours_in_its_own_colour() -> None:
    rows = [
        {"name": f"{who}: one run, us", "value": value}
        for who, value in (("pilotage 1", 200.0), ("<theirs> 2", 9_000))
    ]
    ((title, drawing),) = plots.plots_of("comparison", rows).values()
    assert title == "One run, microseconds of processor time"
    tree = ET.fromstring(drawing)  # noqa: S314 - our own
    bars = [each for each in tree if each.tag.endswith("rect")]
    ours, theirs = [float(bar.attrib["width"]) for bar in bars]
    assert 0 < ours < theirs
    assert bars[0].attrib["fill"] != bars[1].attrib["fill"]
    assert [each.text for each in tree if each.tag.endswith("text")][1:] == [
        "pilotage 1",
        "200",
        "<theirs> 2",
        "9,000",
    ]


def test_a_scenario_without_figures_is_not_drawn() -> None:
    assert plots.plots_of("persistence", [{"name": "one run on SQLite NORMAL, us", "value": 1.0}]) == {}


def test_no_figure_has_two_targets() -> None:
    assert not AT_MOST.keys() & AT_LEAST.keys()


async def test_every_phase_whose_instructions_are_counted_runs() -> None:
    begun: list[None] = []
    await instructions.measured(begin=lambda: begun.append(None), blocks=1, times=1, warm_up=0)
    assert len(begun) == 1


def test_a_turn_costs_what_a_long_run_costs_more_than_a_short_one() -> None:
    counts = {
        name: 5_000_000.0 if name.endswith("11") else 1_000_000.0 for name in instructions.phase_names()
    }
    figures = instructions.figures_of(counts)
    assert figures["ephemeral run of one turn"] == 1_000
    assert figures["ephemeral turn"] == figures["durable turn, SQLite NORMAL"] == 400
    assert instructions.budgets().keys() == figures.keys()


def test_a_figure_may_be_a_twentieth_over_its_budget() -> None:
    known = {"ephemeral turn": 270.0, "durable turn, memory": 1_100.0}
    assert not instructions.over_budget({"ephemeral turn": 283.0}, known)
    (found,) = instructions.over_budget({"ephemeral turn": 270.0, "durable turn, memory": 1_200.0}, known)
    assert found.startswith(
        "durable turn, memory takes 1,200 thousand instructions, 9.1% more than the recorded 1,100"
    )


@pytest.mark.slow
def test_an_ephemeral_run_takes_no_more_instructions_than_its_budget() -> None:
    if (reason := instructions.why_not() or instructions.why_no_budget()) is not None:
        pytest.skip(reason)
    assert not instructions.over_budget(
        instructions.figures_of(instructions.counted(["ephemeral"])), instructions.budgets()
    )
