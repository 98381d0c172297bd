"""Which tools a search finds: a table."""

from __future__ import annotations

import pytest

from pilotage.agent import JsonSchemaConstraint, ModelToolSpec
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.architecture.tool_search import ToolSearchSettings, matches

TOOLS = {
    "files_read_file": "Read the content of a file from the disk.",
    "files_write_file": "Write a file.",
    "github_createPullRequest": "Open a pull request from a branch.",
    "weather_forecast": "Tell the weather of a city for the next days.",
    "mail_send": "Send a message to people.",
    "datei_lesen": "Eine Datei vom Datenträger lesen.",
    "unnamed": "",
}
SPECS = [ModelToolSpec(name, JsonSchemaConstraint({}), text or None) for name, text in TOOLS.items()]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("read a file", ["files_read_file", "files_write_file", "github_createPullRequest"]),
        ("files_write_file", ["files_write_file", "files_read_file"]),
        ("create pull requests", ["github_createPullRequest"]),
        ("weather forecasts", ["weather_forecast"]),
        ("SEND", ["mail_send"]),
        ("sending messages", ["mail_send"]),
        ("Datenträger", ["datei_lesen"]),
        ("nothing like it", []),
        ("", []),
    ],
)
def test_a_query_finds_the_tools_with_its_words(query: str, found: list[str]) -> None:
    assert [each.name for each in matches(SPECS, query, 3)][: len(found) or 3] == found


def test_a_search_finds_at_most_so_many() -> None:
    assert len(matches(SPECS, "file read write", 1)) == 1
    assert matches([], "file", 5) == []


@pytest.mark.parametrize("wrong", [{"most": 0}, {"above": -1}])
def test_bounds_are_positive(wrong: dict[str, int]) -> None:
    with pytest.raises(AgentDefinitionError):
        ToolSearchSettings(**wrong)
