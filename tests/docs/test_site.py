"""How the built site is finished: the search index, and the check that nothing is loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.reference import inherited
from tools.site import from_elsewhere, ordered


def test_guides_come_before_symbols_in_the_search_index() -> None:
    places = [
        "reference/agent/#pilotage.agent.Budget",
        "reference/agent/#pilotage.agent.Budget.most",
        "adr/0001/",
        "reference/agent/",
        "how-to/bound-a-run/#cost",
        "",
        "tutorial/tools/",
    ]
    index = {"config": {}, "items": [{"location": each, "title": "t", "text": "words"} for each in places]}
    items = ordered(index)["items"]
    assert [each["location"] for each in items] == [
        "",
        "tutorial/tools/",
        "how-to/bound-a-run/#cost",
        "reference/agent/",
        "adr/0001/",
        "reference/agent/#pilotage.agent.Budget",
    ]
    assert (items[-1]["title"], items[-1]["text"]) == ("pilotage.agent.Budget", "")


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<img alt='x' src='//cdn.example/x.png'>",
        '<link rel="stylesheet" href="https://cdn.example/x.css">',
        "<style>@import url(https://cdn.example/x.css)</style>",
        '<style>a { background: url("https://cdn.example/x.png") }</style>',
        '<pre class="mermaid"><code>flowchart TD</code></pre>',
    ],
)
def test_a_page_that_needs_another_host_is_found(tmp_path: Path, html: str) -> None:
    (tmp_path / "index.html").write_text(html)
    assert len(list(from_elsewhere(tmp_path))) == 1


def test_links_and_own_files_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="https://example.org">x</a><script src="assets/x.js"></script><link rel="canonical" href="https://x.example/">'
    )
    assert list(from_elsewhere(tmp_path)) == []


def test_the_reference_has_methods_that_a_class_inherits_from_an_internal_base() -> None:
    assert {"start", "get", "list", "events", "questions", "result"} <= set(inherited("pilotage.runtime"))
    assert inherited("pilotage") == []
