"""What holds for all pages: they are in the navigation, current, and name everything that can be declared."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from pilotage import AgentExecutionLimits, AgentExecutionSpec
from tests.docs.blocks import ROOT, pages

DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text()
DECISIONS = sorted((DOCS / "adr").glob("0*.md"))
WRITTEN = "\n".join(page.read_text() for page in pages() if "reference" not in page.parts)


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", CONFIG))
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} == named


def test_the_site_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"site_name: Pilotage {'.'.join(version.split('.')[:2])}\n" in CONFIG


@pytest.mark.parametrize(
    "field", [*fields(AgentExecutionSpec), *fields(AgentExecutionLimits)], ids=lambda f: f.name
)
def test_every_field_of_the_spec_is_in_the_docs(field: object) -> None:
    name = getattr(field, "name", "")
    assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`|\b{name}=", WRITTEN), f"no page shows {name}"


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_a_status_and_a_date(page: Path) -> None:
    title, _, status = page.read_text().splitlines()[:3]
    found = re.fullmatch(r"Status: (accepted|superseded by \[.*\]\(.*\)) · (\d{4}-\d\d-\d\d)", status)
    assert found
    row = f"| [{title.removeprefix('# ')}]({page.name}) | {found[1]} | {found[2]} |"
    assert row in (DOCS / "adr" / "index.md").read_text()


@pytest.mark.parametrize(
    "words",
    ["authentication", "human in the loop", "budget", "retries", "idempotency", "streaming", "copilotkit"],
)
def test_what_people_search_for_is_in_a_heading_of_a_guide(words: str) -> None:
    guides = [*(DOCS / "how-to").glob("*.md"), *(DOCS / "tutorial").glob("*.md")]
    headings = [line for page in guides for line in page.read_text().splitlines() if line.startswith("#")]
    assert any(words in heading.lower() for heading in headings)
