"""The official conformance suite, of both eras: all scenarios that apply pass, and the page lists the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adapters.mcp_server import conformance_suite


@pytest.mark.parametrize("revision", conformance_suite.REVISIONS)
def test_all_scenarios_that_apply_pass(tmp_path: Path, revision: str) -> None:
    folder = conformance_suite.installed()
    with conformance_suite.served() as url:
        code, report = conformance_suite.verdict(folder, url, revision, tmp_path)
    assert code == 0, report
    assert "✓ tools-call-simple-text" in report


@pytest.mark.parametrize("revision", conformance_suite.REVISIONS)
def test_the_page_lists_scenarios_that_do_not_apply(revision: str) -> None:
    listed = conformance_suite.not_applicable(revision)
    assert listed
    assert len(set(listed)) == len(listed)
