"""How a release changes the project's files."""

from __future__ import annotations

import pytest
from tools.release import ReleaseError, cut, first_program, raised


def test_unreleased_entries_go_under_the_new_version() -> None:
    before = "# Changelog\n\n## Unreleased\n\n### Fixed\n\n- A bug.\n\n## 0.1.0 - 2026-01-01\n"
    assert cut(before, "0.2.0", "2026-02-03") == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-02-03\n\n### Fixed\n\n- A bug.\n\n## 0.1.0 - 2026-01-01\n"
    )


@pytest.mark.parametrize(
    "changelog", ["# Changelog\n", "# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-01-01\n- A bug.\n"]
)
def test_a_release_without_entries_is_refused(changelog: str) -> None:
    with pytest.raises(ReleaseError, match="no entries under Unreleased"):
        cut(changelog, "0.2.0", "2026-02-03")


def test_the_version_is_raised_where_it_stands() -> None:
    project = '[project]\nname = "pilotage"\nversion = "0.9.0"\n'
    assert raised(project, "0.10.0") == '[project]\nname = "pilotage"\nversion = "0.10.0"\n'


@pytest.mark.parametrize("version", ["0.9.0", "0.8.1", "0.9.0rc1"])
def test_a_version_that_is_not_higher_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match="is not higher than"):
        raised('version = "0.9.0"\n', version)


@pytest.mark.parametrize("opening", ["```python", '```python title="one.py"'])
def test_the_first_program_of_a_page_is_its_first_python_block(opening: str) -> None:
    page = f"# A\n```console\n$ b\n```\n{opening}\nprint(1)\n```\n```python\nprint(2)\n```\n"
    assert first_program(page) == "print(1)\n"
