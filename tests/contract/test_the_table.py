"""Every line of the table holds: names, signatures, abstract methods, behaviours."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.world import NAMES

TABLE = Path(__file__).parent / "table.txt"
_MARK = re.compile(r" \[B\d+\]$")
_SIGNATURE = re.compile(r"^(?P<name>[\w.]+)\((?P<parameters>.*)\)$")
_ENUM = re.compile(r"^(?P<name>\w+): (?P<members>.+)$")
_ABSTRACT = re.compile(r"^(?P<name>\w+) abstract (?P<methods>.+)$")


def lines() -> Iterator[tuple[str, str]]:
    """The lines of the table, each with its section."""
    section = ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").partition(" ")[0]
        elif line.strip() and not line.startswith("#"):
            yield section, line


LINES = list(lines())
SECTIONS = [*map(str, range(1, 22)), *map(str, range(25, 29)), "B"]


def _value(expression: str) -> Any:
    return eval(expression, dict(NAMES))  # noqa: S307 - the text is the table's own


def _parameters(text: str) -> list[tuple[str, bool, str | None]]:
    """The parameters of a signature: name, whether by keyword only, default."""
    arguments = ast.parse(f"def f({_as_python(text)}): ...").body[0].args  # type: ignore[attr-defined]
    given = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    plain = zip(arguments.args, given, strict=True)
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found = [(each, is_keyword) for is_keyword, pairs in ((False, plain), (True, keyword)) for each in pairs]
    read = [
        (name.arg, is_keyword, ast.unparse(default) if default else None)
        for (name, default), is_keyword in found
    ]
    return [
        (name, is_keyword, None if default == "REQUIRED" else default) for name, is_keyword, default in read
    ]


def _as_python(text: str) -> str:
    """The notation of the document as Python: a required field behind an optional one has a mark for its default."""
    text = re.sub(r"\bmetadata(?=,|$)", "metadata={}", text)
    return re.sub(r"(\w+)!", r"\1=REQUIRED", text)


def _default_of(target: Any, name: str, parameter: inspect.Parameter) -> Any:
    if dataclasses.is_dataclass(target):
        for field in dataclasses.fields(target):
            if field.name == name and field.default_factory is not dataclasses.MISSING:
                return field.default_factory()
    return parameter.default


def _holds_signature(name: str, text: str) -> None:
    target = _value(name)
    owner, _, _ = name.rpartition(".")
    actual = list(inspect.signature(target).parameters.values())
    if owner and actual and actual[0].name == "self" and inspect.isfunction(target):
        actual = actual[1:]
    expected = _parameters(text)
    for position, (wanted, is_keyword, default) in enumerate(expected):
        found = actual[position]
        assert found.name == wanted
        assert is_keyword or found.kind is not inspect.Parameter.KEYWORD_ONLY
        if default is None:
            assert found.default is inspect.Parameter.empty, f"{wanted} is required"
        else:
            assert _default_of(target, wanted, found) == _value(default)
    for ours in actual[len(expected) :]:
        is_open = ours.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        assert is_open or ours.default is not inspect.Parameter.empty, (
            f"{ours.name} is ours and has no default"
        )


def _holds_enum(name: str, text: str) -> None:
    members = [each.strip().partition(" ") for each in text.split("·")]
    expected = [(member, value or member.lower()) for member, _, value in members]
    kind = _value(name)
    assert issubclass(kind, enum.Enum)
    assert [(each.name, each.value) for each in kind][: len(expected)] == expected


def _holds_abstract(name: str, text: str) -> None:
    port = _value(name)
    assert set(port.__abstractmethods__) == set(text.split())
    for method in text.split():
        found = inspect.getattr_static(port, method)
        is_stream = "Iterator" in str(inspect.signature(found).return_annotation) if callable(found) else True
        is_stream = is_stream or "Generator" in str(inspect.signature(found).return_annotation)
        is_opened = (
            "ContextManager" in str(inspect.signature(found).return_annotation) if callable(found) else False
        )
        assert is_stream or is_opened or inspect.iscoroutinefunction(found)


@pytest.mark.parametrize(
    ("section", "line"), LINES, ids=[f"{section}: {line[:80]}" for section, line in LINES]
)
def test_a_line_of_the_contract_holds(section: str, line: str) -> None:
    line = _MARK.sub("", line)
    if " => " in line:
        expression, _, expected = line.partition(" => ")
        assert _value(f"({expression})") == _value(expected)
    elif " !! " in line:
        expression, _, error = line.partition(" !! ")
        with pytest.raises(_value(error)):
            _value(expression)
    elif found := _ABSTRACT.match(line):
        _holds_abstract(found["name"], found["methods"])
    elif found := _ENUM.match(line):
        _holds_enum(found["name"], found["members"])
    elif found := _SIGNATURE.match(line):
        _holds_signature(found["name"], found["parameters"])
    else:
        assert _value(line) is not None


def test_every_section_of_the_contract_has_lines() -> None:
    missing = {"22", "23", "24"}
    assert {section for section, _ in LINES} == set(SECTIONS) - missing
    assert len(LINES) > 500
