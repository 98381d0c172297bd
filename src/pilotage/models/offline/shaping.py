"""An answer in the shape of a JSON schema, from known values; invented fields are marked. Pure.

A field gets, in this order: what the command names; what a tool's result has under the same name; for the first text
of the answer, the words of the answer; the default of the schema, or null; else the plainest value that fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.jsonvalue import JsonObject, JsonValue, list_or_empty, object_or_empty
from pilotage.models.offline.arguments import named_in
from pilotage.models.offline.grammar import SpokenCommand
from pilotage.models.offline.parameters import Kind, Parameter, parameters_of, resolved
from pilotage.models.offline.words import vocabulary
from pilotage.values import value

NOTHING_KNOWN = "unknown"
_DEEPEST = 8
_ANSWERING = vocabulary("text answer summary message content greeting reply output description result")
_PLAIN_FORMATS: Mapping[str, str] = {
    "date": "1970-01-01",
    "date-time": "1970-01-01T00:00:00Z",
    "time": "00:00:00",
    "duration": "PT0S",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "decimal": "0",
    "email": "unknown@example.com",
    "uri": "https://example.com",
}


@value
class Known:
    """Sources of an answer: its text, the commands, the results of tools."""

    text: str
    commands: Sequence[SpokenCommand] = ()
    results: Sequence[JsonValue] = ()


@value
class Shaped:
    """The answer, and the paths of its invented fields."""

    answer: JsonValue
    made_up: tuple[str, ...] = ()


def shape(schema: JsonObject, known: Known) -> Shaped:
    """Return an answer of the shape."""
    shaping = _Shaping(schema, known)
    answer = shaping.root()
    return Shaped(answer, tuple(shaping.made_up))


class _Shaping:
    def __init__(self, schema: JsonObject, known: Known) -> None:
        self._root = schema
        self._known = known
        self.made_up: list[str] = []

    def root(self) -> JsonValue:
        """Return the whole answer."""
        schema = resolved(self._root, self._root)
        if schema.get("type") == "object" and "properties" in schema:
            return self._object(schema, "", 0)
        parameter = Parameter("answer", schema, _kind_of(schema))
        found = self._from_commands([parameter]).get("answer", self._whole_result(parameter))
        if found is not None:
            return found
        return self._known.text if _is_free_text(schema) else self._plain(schema, "answer", 0)

    def _object(self, schema: JsonObject, path: str, depth: int) -> JsonValue:
        parameters = parameters_of({**schema, "$defs": self._root.get("$defs", {})})
        given = self._from_commands(parameters if depth == 0 else ())
        speaking = _speaking(parameters, given) if depth == 0 else None
        declared = object_or_empty(schema.get("properties"))
        answer: dict[str, JsonValue] = {}
        for parameter in parameters:
            name, where = parameter.name, f"{path}.{parameter.name}".lstrip(".")
            member = object_or_empty(declared[name])
            found = given.get(name, self._from_results(parameter))
            if found is not None:
                answer[name] = found
            elif name == speaking:
                answer[name] = self._known.text
            elif "default" in member:
                answer[name] = member["default"]
            elif parameter.is_required:
                answer[name] = self._unknown(member, where, depth + 1)
        return answer

    def _from_commands(self, parameters: Sequence[Parameter]) -> JsonObject:
        found: dict[str, JsonValue] = {}
        for command in self._known.commands:
            found = {**named_in(command, parameters), **found}
        return found

    def _from_results(self, parameter: Parameter) -> JsonValue:
        for result in self._known.results:
            found = result.get(parameter.name) if isinstance(result, Mapping) else None
            if found is not None and (fitting := parameter.fitting(found)) is not None:
                return fitting
        return self._whole_result(parameter) if parameter.kind is Kind.LIST else None

    def _whole_result(self, parameter: Parameter) -> JsonValue:
        fitting = (parameter.fitting(each) for each in self._known.results)
        return next((each for each in fitting if each is not None), None)

    def _unknown(self, schema: JsonObject, path: str, depth: int) -> JsonValue:
        if _may_be_null(schema):
            return None
        return self._plain(resolved(schema, self._root), path, depth)

    def _plain(self, schema: JsonObject, path: str, depth: int) -> JsonValue:
        """Return the plainest value of a schema."""
        kind = _kind_of(schema)
        if kind is Kind.OBJECT and depth < _DEEPEST:
            return self._object(schema, path, depth)
        if kind is Kind.LIST:
            return self._items(schema, path, depth)
        self.made_up.append(path)
        if "const" in schema:
            return schema["const"]
        if choices := list_or_empty(schema.get("enum")):
            return choices[0]
        if kind is Kind.BOOLEAN:
            return False
        return _least(schema, kind) if kind in (Kind.INTEGER, Kind.NUMBER) else _plain_text(schema)

    def _items(self, schema: JsonObject, path: str, depth: int) -> list[JsonValue]:
        count = int(_number(schema, "minItems") or 0) if depth < _DEEPEST else 0
        shapes = [*list_or_empty(schema.get("prefixItems"))[:count]]
        shapes += [schema.get("items")] * (count - len(shapes))
        return [
            self._unknown(object_or_empty(shape), f"{path}[{i}]", depth + 1) for i, shape in enumerate(shapes)
        ]


def _speaking(parameters: Sequence[Parameter], given: JsonObject) -> str | None:
    """Return the field for the text of the answer: one with such a name, else the first free text."""
    texts = [p for p in parameters if p.name not in given and _is_free_text(p.schema)]
    chosen = next((p for p in texts if p.words & _ANSWERING), None) or next(iter(texts), None)
    return chosen.name if chosen else None


def _is_free_text(schema: JsonObject) -> bool:
    return schema.get("type") == "string" and not schema.keys() & {"enum", "const", "format", "pattern"}


def _kind_of(schema: JsonObject) -> Kind:
    (parameter,) = parameters_of({"properties": {"it": schema}})
    return parameter.kind


def _may_be_null(schema: JsonObject) -> bool:
    choices = list_or_empty(schema.get("anyOf") or schema.get("oneOf"))
    return any(object_or_empty(each).get("type") == "null" for each in (schema, *choices))


def _number(schema: JsonObject, name: str) -> float | None:
    found = schema.get(name)
    return found if isinstance(found, int | float) else None


def _least(schema: JsonObject, kind: Kind) -> JsonValue:
    """Return zero, or the number nearest to it that the bounds allow."""
    step = _number(schema, "multipleOf") or 1
    low, high = _number(schema, "minimum"), _number(schema, "maximum")
    if (above := _number(schema, "exclusiveMinimum")) is not None:
        low = above + step
    if (below := _number(schema, "exclusiveMaximum")) is not None:
        high = below - step
    least = low if low is not None and low > 0 else high if high is not None and high < 0 else 0
    if step != 1 and least % step:
        least += step - least % step
    return int(least) if kind is Kind.INTEGER else least


def _plain_text(schema: JsonObject) -> str:
    if "format" in schema:
        return _PLAIN_FORMATS.get(str(schema["format"]), NOTHING_KNOWN)
    text = NOTHING_KNOWN.ljust(int(_number(schema, "minLength") or 0), ".")
    longest = _number(schema, "maxLength")
    return text if longest is None else text[: int(longest)]
