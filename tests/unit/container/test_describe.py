"""The graph as text and as a flowchart."""

from __future__ import annotations

import pytest

from pilotage.container.describe import Phase, Skipped, StartupReport, describe_mermaid, describe_text
from pilotage.container.graph import Graph
from pilotage.container.pod import Pod, Scope, UseCase, given


class Port: ...


class One(Port): ...


class Two(Port): ...


class Absent: ...


@Pod(scope=Scope.PROTOTYPE)
class Page:
    def __init__(self, one: One, absent: Absent | None = None, size: int = 3) -> None: ...


@Pod
def make_list() -> list[Page]: ...


@UseCase
class Shop:
    def __init__(
        self, ports: list[Port], none: list[Absent], page: Page, port: Port, absent: Absent
    ) -> None: ...


class Second:
    def __init__(self, page: Page) -> None: ...


class Broken:
    def __init__(self, nothing: NoSuchType) -> None: ...  # noqa: F821


class Hen:
    def __init__(self, hen: Hen) -> None: ...


def graph_of(*targets: object) -> Graph:
    return Graph([Pod.get_or_none(target) or Pod().applied_to(target) for target in targets], {})


def test_the_tree_shows_how_each_pod_was_asked_for_and_what_is_not_there() -> None:
    graph = graph_of(Shop, Page, One, Two, Second, Broken, Hen, make_list)
    assert describe_text("shop", graph) == (
        "application 'shop'\n"
        "Shop [use case]\n"
        "├── One in list[Port]\n"
        "├── Two in list[Port]\n"
        "├── list[Absent] (empty)\n"
        "├── Page [prototype]\n"
        "│   ├── One\n"
        "│   └── Absent (left out)\n"
        "├── Port (ambiguous: One, Two)\n"
        "└── Absent (missing)\n"
        "Second\n"
        "└── Page [prototype] (see above)\n"
        "Broken [unreadable]\n"
        "make_list -> list[Page]\n"
        "Hen\n"
        "└── Hen (see above)"
    )


def test_the_flowchart_has_an_arrow_per_dependency_and_a_dashed_one_to_what_is_missing() -> None:
    assert describe_mermaid(graph_of(Shop, Page, One, Two)) == (
        "flowchart TD\n"
        '  pod0["Shop [use case]"]\n'
        '  pod1["Page [prototype]"]\n'
        '  pod2["One"]\n'
        '  pod3["Two"]\n'
        '  pod0 -->|"list[Port]"| pod2\n'
        '  pod0 -->|"list[Port]"| pod3\n'
        '  pod0 -->|"Page"| pod1\n'
        '  pod0 -.-> pod0_3["Port (ambiguous: One, Two)"]\n'
        '  pod0 -.-> pod0_4["Absent (missing)"]\n'
        '  pod1 -->|"One"| pod2'
    )


def test_an_instance_is_called_by_its_class() -> None:
    assert describe_text("shop", Graph([given(One, "one")], {})) == "application 'shop'\nOne"


def test_a_report_is_pleasant_to_read() -> None:
    report = StartupReport(
        "shop",
        pods=12,
        phases=[Phase("scan", 0.0123), Phase("contributions", 1.0)],
        loaded=["plugin 'agent'"],
        skipped=[Skipped("plugin 'studio'", "excluded")],
    )
    assert str(report) == (
        "application 'shop': 12 pods in 1012.3 ms\n"
        "  scan               12.3 ms\n"
        "  contributions    1000.0 ms\n"
        "  loaded   plugin 'agent'\n"
        "  skipped  plugin 'studio': excluded"
    )


def test_a_phase_is_recorded_even_if_it_fails() -> None:
    report = StartupReport("shop")
    with pytest.raises(OSError, match="stuck"), report.phase("build"):
        raise OSError("stuck")
    assert [phase.name for phase in report.phases] == ["build"]
    assert report.seconds == report.phases[0].seconds >= 0
