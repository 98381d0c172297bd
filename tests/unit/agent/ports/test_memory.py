"""How well a memory fits a question."""

from __future__ import annotations

import pytest

from pilotage.agent import MemoryItem, MemoryKind, MemoryScope, MemoryUse
from pilotage.agent.ports.memory import best_first, words_of
from pilotage.agent.principal import RunContext
from pilotage.errors import AgentDefinitionError
from pilotage.safety.trust import TrustLabel


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", set()),
        ("?! -- _", set()),
        ("Ada prefers TEA, tea and Tea.", {"ada", "prefers", "tea", "and"}),
        ("Straße STRASSE", {"strasse"}),
        ("ﬁne file_name 42nd", {"fine", "file", "name", "42nd"}),
        ("お茶が好き", set("お茶が好き")),
        ("日本 tea", {"日", "本", "tea"}),
        ("x" * 100, {"x" * 64}),
    ],
)
def test_a_text_is_found_by_its_words(text: str, words: set[str]) -> None:
    assert words_of(text) == words


def test_rare_words_count_more_and_of_equals_the_later_one_comes_first() -> None:
    shared = {"old": ["tea"], "harbour": ["harbour"], "new": ["tea"], "both": ["tea", "cup"]}
    assert best_first(shared) == ["both", "harbour", "new", "old"]
    assert best_first({}) == []


def item(text: str) -> MemoryItem:
    return MemoryItem(text[:1], MemoryKind.FACT, text, TrustLabel())


def test_what_does_not_fit_is_left_out_whole() -> None:
    use = MemoryUse(most=2, max_characters=6)
    assert [each.text for each in use.fitting([item("aaa"), item("bbbb"), item("cc"), item("d")])] == [
        "aaa",
        "cc",
    ]


@pytest.mark.parametrize("most", [0, 101])
def test_a_use_has_bounds(most: int) -> None:
    with pytest.raises(AgentDefinitionError, match=r"MemoryUse\.most"):
        MemoryUse(most=most)


def test_a_text_that_is_a_document_is_refused() -> None:
    with pytest.raises(AgentDefinitionError, match="has 8001 characters, 8000 are allowed"):
        item("x" * 8001)


def test_a_run_that_acts_for_nobody_has_no_memory() -> None:
    assert MemoryScope.of(RunContext("acme", "ada"), "cook") == MemoryScope("acme", "ada", "cook")
    with pytest.raises(AgentDefinitionError, match="has no user"):
        MemoryScope.of(RunContext("acme", None, None, "run-1"))
