"""The exact JSON that runs store: `rows.txt` has every row of the stories, and is never made anew.

Rows of earlier versions look like this, so a line that differs is a change of the stored format. Records are as ever;
views of calls that only read have had their arguments (`asked`) since these calls show them in the evidence, and rows
of actions their events since events follow from rows (before, every commit with events had a `told` row). Starts name
the version of the rules of replay since tasks are named by what they were given. Rows of summaries have what was paid for
them since reports of costs read it there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from tests.behaviour.bureau import Bureau
from tests.behaviour.rows.rows_text import text_of
from tests.behaviour.rows.stories import STORIES, WITH_EVENTS, Story

ROWS = Path(__file__).with_name("rows.txt")
VOCABULARY = Path(__file__).parents[2] / "golden" / "vocabulary.json"


GOLDEN_LACKS = {
    "/claimed": {"deadline", "drift", "waits_counted_until"},
    "model_call/after": {"retryable"},
    "step/after": {"actions", "dropped", "given", "refused", "symptoms", "trust"},
}
"""Keys that the golden databases have no run with: only the rows here prove that they are stored as ever."""


@cache
def vocabulary() -> dict[str, list[str]]:
    """The words of the golden databases, by where they stand."""
    words: dict[str, list[str]] = json.loads(VOCABULARY.read_text())
    return words


@cache
def stored() -> dict[str, list[str]]:
    """The lines of each story."""
    sections = ROWS.read_text().strip().split("\n\n")
    return {name.removeprefix("# "): lines for name, *lines in map(str.splitlines, sections)}


def test_every_story_is_stored() -> None:
    assert list(stored()) == [story.__name__ for story in STORIES]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_rows_and_state_of_a_run_are_stored_as_ever(story: Story) -> None:
    bureau = Bureau()
    run_id = await story(bureau)
    assert await text_of(bureau, run_id, with_events=story in WITH_EVENTS) == stored()[story.__name__]


def records() -> Iterator[tuple[str, str]]:
    """Kind and stage of each stored row, and its record."""
    for lines in stored().values():
        for columns, record in pairwise(lines):
            if record.startswith("    record "):
                stage, kind, *_ = columns.split()
                yield f"{kind.removeprefix('-')}/{stage}", record.removeprefix("    record ")


def test_the_stories_have_rows_of_every_kind_and_stage() -> None:
    assert {where for where, _ in records()} == set(vocabulary()["rows"])


def test_the_keys_that_no_golden_run_has_are_known() -> None:
    lacking: dict[str, set[str]] = {}
    for where, record in records():
        keys = set(json.loads(record) or ()) if record.startswith("{") else set()
        if unknown := keys.difference(vocabulary().get(f"record of {where}", ())):
            lacking.setdefault(where, set()).update(unknown)
    assert lacking == GOLDEN_LACKS
