"""Docstrings of three styles say the same."""

import pytest

from pilotage.agent.tools.docstring import Docstring, read_docstring

GOOGLE = """Search the docs
and the wiki.

Longer words.

Args:
    query: What to look for,
        in words.
    limit (int, optional): How many: at most 50.
    silent:

Returns:
    query: not a parameter.
"""
NUMPY = """Search the docs
and the wiki.

Parameters
----------
query : str
    What to look for,
    in words.
limit
    How many: at most 50.

Returns
-------
str
    query : not a parameter.
"""
REST = """Search the docs
and the wiki.

:param query: What to look for,
    in words.
:param int limit: How many: at most 50.
:returns: Something.
"""


def documented(text: str | None) -> object:
    def function() -> None: ...

    function.__doc__ = text
    return function


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_all_styles_give_summary_and_parameters(text: str) -> None:
    assert read_docstring(documented(text)) == Docstring(
        "Search the docs and the wiki.",
        {"query": "What to look for, in words.", "limit": "How many: at most 50."},
    )


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (None, None),
        ("", None),
        ("One line.", "One line."),
        ("Args:\n    query: A word.", None),
        ("One line.\n:param query: A word.", "One line."),
        ("\n    Indented.\n\n    More.\n    ", "Indented."),
        ("Note: this is a summary.", "Note: this is a summary."),
    ],
)
def test_the_summary_ends_where_something_else_begins(text: str | None, summary: str | None) -> None:
    assert read_docstring(documented(text)).summary == summary
