"""Private words stay out of names, docstrings and comments of `src/` and out of the docs: a reader needs no glossary."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import pilotage

SOURCE = Path(pilotage.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
GENERATED = {"explanation/performance.md", "explanation/walks.md"}
"""Pages that benchmarks and tools write, with the names of their measurements."""

BANNED = (
    ("nobody", "name the thing that is missing: no owner, no principal, no caller"),
    ("somebody", "name the party: a person, an owner, a caller"),
    ("anybody", "name the party: a reader, a caller, a process"),
    ("everybody", "name the parties: all readers, all processes"),
    ("whoever", "name the party: the caller, the owner, the reader"),
    ("told", "events, sent, reported, emitted"),
    ("tell", "report, send, emit"),
    ("tells", "reports, sends, shows"),
    ("telling", "reporting, events"),
    ("heard", "received, observed"),
    ("hear", "receive, observe, take"),
    ("hears", "receives, observes"),
    ("behind", "after, following"),
    ("unkept", "ephemeral"),
    ("patience", "retries left, a time limit, back-off"),
    ("errand", "delegation, effect"),
    ("nursery", "child runs"),
    ("found out", "unknown outcome, decided"),
    ("left alone", "backed off, skipped, unchanged"),
    ("said before", "earlier events, history"),
    ("it came to", "its result"),
    ("came of", "the outcome of, the result of"),
)
"""Words and phrases with what to write instead, in `src/` and in the pages of the docs."""

BANNED_IN_NAMES = (
    ("said", "text, reply, sent"),
    ("kept", "stored, durable, remaining"),
    ("whose", "owner"),
    ("wish", "request"),
)
"""Words that are ordinary English in a sentence, such as the name of a test, and say too little in any other name."""

ALLOWED_NAMES = {
    "BEHIND",  # the side of a look-behind, as regular expressions call it
    "patience_seconds",  # a field of GateSettings, which applications set
    "tell",  # a member of Dependencies, which loops call
    "TELL_MODEL",  # a member of the public `RejectionPolicy`
    "TOLD",  # a stage of stored rows
}
"""Identifiers of the contract, of stored records, of other vocabularies, or that another package still uses."""

ALLOWED_TEXTS = ("look-behind",)
"""Terms that contain a banned word and are conventional; code in backticks is not read either."""

RELEASED = {"adapters/sqlalchemy/migrations/versions"}
"""Migrations: a released one never changes."""


class Finding(NamedTuple):
    """One banned word: its place, and what to write instead."""

    place: str
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.place}: {self.word!r}. Write: {self.instead}."


def modules() -> list[str]:
    return sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}/")


def is_done(module: str) -> bool:
    return not any(is_in(module, package) for package in RELEASED)


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines: functions, classes, parameters, variables, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case _:
                pass


def texts_in(source: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings, those of attributes included, and the comments."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            for offset, line in enumerate(node.value.value.splitlines()):
                yield node.lineno + offset, line
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def words_of(name: str) -> str:
    """Return the words of an identifier, with blanks between and around them."""
    return f" {' '.join(re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower().split('_'))} "


def prose_of(line: str) -> str:
    """Return the words of a line, with blanks between and around them, without code and allowed terms."""
    text = re.sub(r"`[^`]*`", " ", line).lower()
    for term in ALLOWED_TEXTS:
        text = text.replace(term, " ")
    return f" {' '.join(re.findall(r'[a-z]+', text))} "


def findings_in(module: str, source: str) -> list[Finding]:
    tree = ast.parse(source)
    names = [(line, name, words_of(name)) for line, name in names_in(tree) if name not in ALLOWED_NAMES]
    short = [each for each in names if not each[1].startswith("test_")]
    texts = [(line, text.strip(), prose_of(text)) for line, text in texts_in(source, tree)]
    found = [
        Finding(f"{module}:{line} {shown}", word, instead)
        for banned, places in ((BANNED, [*names, *texts]), (BANNED_IN_NAMES, short))
        for word, instead in banned
        for line, shown, words in places
        if f" {word} " in words
    ]
    return sorted(set(found))


@pytest.mark.parametrize("module", [module for module in modules() if is_done(module)])
def test_a_module_has_no_private_words(module: str) -> None:
    found = findings_in(module, (SOURCE / module).read_text())
    assert not found, "\n".join(map(str, found))


def pages() -> list[str]:
    found = [page for part in ("explanation", "how-to", "tutorial") for page in (DOCS / part).glob("*.md")]
    return sorted({str(page.relative_to(DOCS)) for page in found} - GENERATED)


def prose_in(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside of code blocks, without addresses of links and names of row stages."""
    is_code = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"\]\([^)]*\)|\b[A-Z]{2,}\b", " ", line)


def findings_in_page(name: str, page: str) -> list[Finding]:
    return [
        Finding(f"{name}:{number}", word, instead)
        for number, line in prose_in(page)
        for word, instead in BANNED
        if f" {word} " in prose_of(line)
    ]


@pytest.mark.parametrize("page", pages())
def test_a_page_has_no_private_words(page: str) -> None:
    found = findings_in_page(page, (DOCS / page).read_text())
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("Nobody reads it, and it\nwas told.", ["nobody", "told"]),
        ("A TOLD row, `tell()` and [why](erasing-behind-a-chain.md).", []),
        ("```python\nheard = told()\n```\nbehind", ["behind"]),
    ],
)
def test_prose_of_a_page_is_read_without_code_and_addresses(page: str, words: list[str]) -> None:
    assert [each.word for each in findings_in_page("p.md", page)] == words


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def told_twice(): ...", ["m.py:1 told_twice: 'told'. Write: events, sent, reported, emitted."]),
        ("class NobodyKnows: ...", ["m.py:1 NobodyKnows: 'nobody'."]),
        ("def run(patience): ...", ["m.py:1 patience: 'patience'."]),
        ("self.kept = 1", ["m.py:1 kept: 'kept'."]),
        ('"""Text.\n\nWhat the run\ncame of it."""', ["m.py:4 came of it.: 'came of'."]),
        ("x = 1  # whoever comes", ["m.py:1 # whoever comes: 'whoever'."]),
        ('"""What was kept and said, by those whose turn it is; `tell` and a look-behind."""', []),
        ("retold, foretell, BEHIND = 1, 2, 3\nf.tell(x)\ng('nobody')", []),
    ],
)
def test_a_finding_names_the_place_the_word_and_what_to_write(source: str, found: list[str]) -> None:
    shown = [str(each) for each in findings_in("m.py", source)]
    assert len(shown) == len(found)
    assert all(text.startswith(expected) for text, expected in zip(shown, found, strict=True)), shown
