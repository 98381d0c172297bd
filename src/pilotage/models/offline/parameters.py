"""Parameters of a JSON schema, and the values that each of them takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property

from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty, object_or_empty
from pilotage.models.offline.words import stem, vocabulary, words_of
from pilotage.values import value

_NUMBER = re.compile(r"[-+]?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_CURRENCY = "€$£%"
_TRUE = vocabulary("true yes on")
_FALSE = vocabulary("false no off")
_FORMATS = {
    "decimal": _NUMBER,
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "date-time": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].+"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}"),
}
_PATHISH = vocabulary("path file filename directory dir folder root")
_TEXTISH = vocabulary(
    "content text body message query pattern card note question command code prompt fact summary"
)
_ADDRESS = vocabulary("url uri link href")
_PATH = re.compile(r"\.{0,2}/.*|[\w./-]*/[\w./-]*|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,7}|\.{1,2}")
_URL = re.compile(r"https?://\S+")


class Kind(StrEnum):
    """The kind of value that a parameter takes."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"
    OBJECT = "object"


_TYPES: Mapping[Kind, tuple[type, ...]] = {
    Kind.TEXT: (str,),
    Kind.INTEGER: (int,),
    Kind.NUMBER: (int, float),
    Kind.BOOLEAN: (bool,),
    Kind.LIST: (list, tuple),
    Kind.OBJECT: (dict,),
}


@value(slots=False)
class Parameter:
    """One parameter of a tool, or one field of an answer."""

    name: str
    schema: JsonObject
    kind: Kind = Kind.TEXT
    is_required: bool = False
    item: JsonObject | None = None

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its name."""
        return frozenset(map(stem, words_of(self.name)))

    @property
    def is_path(self) -> bool:
        """Whether it takes the name of a file or a folder."""
        return bool(self.words & _PATHISH)

    @property
    def is_prose(self) -> bool:
        """Whether it takes words as a person writes them."""
        return bool(self.words & _TEXTISH)

    @property
    def choices(self) -> Sequence[JsonValue]:
        """The allowed values; empty if any value is allowed."""
        return list_or_empty(self.schema.get("enum"))

    @property
    def is_typed(self) -> bool:
        """Whether the form of a value shows that it belongs here."""
        has_format = self.schema.get("format") in _FORMATS
        return self.kind not in (Kind.TEXT, Kind.LIST) or has_format or bool(self.choices)

    def accepts(self, text: str) -> JsonValue:
        """Return the value that a text means here; None where it cannot be one."""
        if self.choices:
            return next((each for each in self.choices if str(each).lower() == text.lower()), None)
        match self.kind:
            case Kind.INTEGER | Kind.NUMBER:
                return _number(text, whole=self.kind is Kind.INTEGER)
            case Kind.BOOLEAN:
                return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None
            case Kind.OBJECT:
                return None
            case Kind.LIST:
                return self.entries([text])
            case Kind.TEXT:
                return self._text(text)

    def entries(self, texts: Sequence[str]) -> list[JsonValue] | None:
        """Return the texts as the entries of a list; None where one of them cannot be one."""
        entries = [self._entry.accepts(text) for text in texts]
        return None if None in entries else entries

    @property
    def _entry(self) -> Parameter:
        schema = self.item or {}
        return Parameter(self.name, schema, _kind(schema))

    def fitting(self, given: JsonValue) -> JsonValue:
        """Return a JSON value as this parameter takes it, or None; numbers may be texts, and texts numbers."""
        if self.choices:
            return given if given in self.choices else None
        if self.kind is Kind.TEXT and isinstance(given, int | float) and "format" in self.schema:
            given = str(given)
        if isinstance(given, str):
            return None if self.kind is Kind.LIST else self.accepts(given)
        if not isinstance(given, _TYPES[self.kind]) or isinstance(given, bool) != (self.kind is Kind.BOOLEAN):
            return None
        if isinstance(given, Sequence):
            return given if all(self._entry.fitting(each) is not None for each in given) else None
        return given

    def _text(self, text: str) -> str | None:
        form = _FORMATS.get(str(self.schema.get("format")))
        if form is None:
            return text
        if self.schema.get("format") == "decimal":
            text = text.strip(_CURRENCY)
        return text if form.fullmatch(text) else None

    def looks_right(self, text: str) -> bool:
        """Return whether a text belongs here by its form: a path, an address, a number, one of the choices."""
        if self.is_typed:
            return self.accepts(text) is not None
        if self.words & _ADDRESS:
            return _URL.fullmatch(text) is not None
        return self.is_path and is_path(text)


def is_path(text: str) -> bool:
    """Return whether a word looks like the name of a file or a folder: `src`, no; `src/`, `a.txt` and `.`, yes."""
    return _PATH.fullmatch(text) is not None and _NUMBER.fullmatch(text) is None


def parameters_of(schema: JsonObject) -> tuple[Parameter, ...]:
    """Return the parameters of an object schema, in its order."""
    root = resolved(schema, schema)
    required = list_or_empty(root.get("required"))
    properties = object_or_empty(root.get("properties"))
    return tuple(
        _parameter(name, resolved(object_or_empty(each), schema), schema, name in required)
        for name, each in properties.items()
    )


def resolved(schema: JsonObject, root: JsonObject) -> JsonObject:
    """Return the schema with references followed; of several alternatives the first that is not null."""
    seen = 0
    while seen < 16 and ("$ref" in schema or "anyOf" in schema or "oneOf" in schema or "allOf" in schema):
        seen += 1
        schema = _one_step(schema, root)
    return schema


def _one_step(schema: JsonObject, root: JsonObject) -> JsonObject:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found: JsonValue = root
        for part in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(part, {}) if isinstance(found, Mapping) and part else found
        return object_or_empty(found)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            choices = map(object_or_empty, list_or_empty(schema[several]))
            nothing: JsonObject = {}
            chosen = next((each for each in choices if each.get("type") != "null"), nothing)
            about = {key: each for key, each in schema.items() if key != several}
            return {**about, **chosen}
    return schema


def _parameter(name: str, schema: JsonObject, root: JsonObject, is_required: bool) -> Parameter:
    kind, item = _kind(schema), None
    if kind is Kind.LIST:
        item = resolved(object_or_empty(schema.get("items")), root)
    return Parameter(name, schema, kind, is_required, item)


def _kind(schema: JsonObject) -> Kind:
    match schema.get("type"):
        case "integer":
            return Kind.INTEGER
        case "number":
            return Kind.NUMBER
        case "boolean":
            return Kind.BOOLEAN
        case "array":
            return Kind.LIST
        case "object":
            return Kind.OBJECT
        case _:
            return Kind.TEXT


def _number(text: str, *, whole: bool) -> int | float | None:
    text = text.strip(_CURRENCY)
    if not _NUMBER.fullmatch(text) or (whole and "." in text):
        return None
    return int(text) if "." not in text else float(text)
