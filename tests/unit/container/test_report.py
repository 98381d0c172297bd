"""The start-up report in words."""

from __future__ import annotations

import pytest

from pilotage.container.report import Phase, Skipped, StartupReport


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
