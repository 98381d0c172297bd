"""Results and errors as they are recorded and read back: a program gets the same, live and in replay. Pure.

A result is written and read by its declared type. Without a declared type it is JSON, or one of a closed set of
scalars, which are written as text beside a list of their places: `{"result": "12.50", "scalars": [["decimal"]]}`. A
record without that list, such as one of an earlier version, is JSON as it stands. No class is found by a stored name.

A declared error, and one of the library's own, has its code, its arguments and its attributes in the record; any other
one is a plain `ToolError`. Of a failure (`exposure.redactor`) only the record has the words, never the view.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache, lru_cache, partial
from inspect import unwrap
from math import isfinite
from types import NoneType
from typing import Any, Never, NoReturn, TypeAlias, TypeVar, cast, get_args, get_origin

from pilotage.agent.media_places import mentions_media
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.tools.declare import original_function
from pilotage.agent.tools.declared_errors import LIBRARY_ERRORS, DeclaredErrors
from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.errors import AgentDefinitionError, RunError, ToolError
from pilotage.jsonvalue import JsonObject, JsonValue, is_list, is_object, to_json_value
from pilotage.runtime.exposure.redactor import Failure
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    list_field,
    optional_object,
    optional_text,
    text_field,
    value_field,
)
from pilotage.schema.encoding import encoder_of, is_masked
from pilotage.schema.rejections import reject_masked, spelling

ScalarPlace: TypeAlias = tuple[str | int, ...]
Scalars: TypeAlias = Sequence[tuple[str, ScalarPlace]]
"""The kinds and places of the scalars in a result that JSON does not have."""

_NO_SCALARS: Scalars = ()
_PLAIN: frozenset[type] = frozenset({str, int, bool, NoneType})
"""Types of results that are their own record, where the declared type allows them."""


class ResultCodec:
    """Encodes the results of one declared type as records, and decodes the records.

    A result of a type in `same` is its own record.
    """

    same: frozenset[type] = frozenset()
    has_media: bool = False
    """Whether results of the declared type may have media in them."""

    def encode(self, result: object) -> tuple[JsonValue, Scalars]:
        """Return the JSON of a result, and its scalars that JSON does not have.

        Raises:
            TypeError, ValueError, RecursionError: it has no JSON form.
        """
        return to_json_value(result), _NO_SCALARS

    def decode(self, value: JsonValue) -> object:
        """Return the result that a JSON value stands for: a copy of the program's own.

        Raises:
            AgentStructuredOutputError: it is not of the declared type.
        """
        return value

    def read(self, record: JsonObject) -> object:
        """Return the recorded result.

        Raises:
            AgentStructuredOutputError: it is not of the declared type.
            DamagedRecordError: this is not the record of a result.
        """
        return self.decode(value_field(record, words.RESULT))


def record_of_result(value: JsonValue, scalars: Scalars) -> JsonObject:
    """Return the record of an encoded result."""
    if not scalars:
        return {words.RESULT: value}
    return {words.RESULT: value, words.SCALARS: [[kind, *place] for kind, place in scalars]}


AS_JSON = ResultCodec()
"""For effects whose results are JSON by themselves."""


class TypedCodec(ResultCodec):
    """Records results of a declared type."""

    def __init__(self, declared: object) -> None:
        spec = StructuredOutputSpec.from_type(declared)
        if is_masked(spec.constraint.schema):
            raise AgentDefinitionError(reject_masked().about(spelling(declared)))
        self.same = _own_records_of(declared)
        self.has_media = mentions_media(spec.constraint.schema)
        self._encode = encoder_of(declared)
        self._decode = spec.decode

    def encode(self, result: object) -> tuple[JsonValue, Scalars]:
        return self._encode(result), _NO_SCALARS

    def decode(self, value: JsonValue) -> object:
        return self._decode(value)


class UntypedCodec(ResultCodec):
    """Records results without a declared type: JSON and scalars of the closed set.

    With `is_lenient`, any other value is recorded in its JSON form, and that is what the program gets.
    """

    same = _PLAIN

    def __init__(self, *, is_lenient: bool = False) -> None:
        self._is_lenient = is_lenient

    def encode(self, result: object) -> tuple[JsonValue, Scalars]:
        found: list[tuple[str, ScalarPlace]] = []
        return self._encoded(result, (), found), found

    def decode(self, value: JsonValue) -> object:
        return copied(value)

    def read(self, record: JsonObject) -> object:
        value = copied(value_field(record, words.RESULT))
        if words.SCALARS not in record:
            return value
        for entry in list_field(record, words.SCALARS):
            value = _with_scalar(value, entry)
        return value

    def _encoded(self, value: object, place: ScalarPlace, found: list[tuple[str, ScalarPlace]]) -> JsonValue:
        known: Any = value
        kind = type(value)
        if kind in _PLAIN:
            plain: JsonValue = known
            return plain
        if not self._is_lenient and (isinstance(value, Enum) or hasattr(value, "_fields")):
            # Enums and named tuples are more than the text, number or list that would come back.
            raise TypeError(_undeclared(kind))
        if isinstance(value, (str, int, float)):
            return _number_or_text(value)
        if isinstance(value, Mapping):
            return {_key(key): self._encoded(each, (*place, _key(key)), found) for key, each in known.items()}
        if isinstance(value, (list, tuple)):
            return [self._encoded(each, (*place, index), found) for index, each in enumerate(known)]
        for name, (scalar, write, _) in _scalars().items():
            if isinstance(value, scalar):
                found.append((name, place))
                return write(value)
        if self._is_lenient:
            return to_json_value(value)
        raise TypeError(_undeclared(kind))


UNTYPED, UNTYPED_BRANCH = UntypedCodec(), UntypedCodec(is_lenient=True)


def _undeclared(kind: type) -> str:
    return (
        f"{kind.__qualname__} is neither JSON nor a Decimal, datetime, date, UUID or bytes. Declare the type: annotate "
        "what the function returns, or give returns=."
    )


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise TypeError(f"a JSON key must be a string, not {type(key).__qualname__}")


def _number_or_text(value: str | float) -> JsonValue:
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"JSON has no number {value!r}")
    return to_json_value(value)


@cache
def _scalars() -> Mapping[str, tuple[type, Callable[[Any], str], Callable[[str], object]]]:
    """Return the closed set of scalars: by name the class, how it is written and how it is read."""
    from base64 import b64decode, b64encode  # noqa: PLC0415 - few runs need them
    from uuid import UUID  # noqa: PLC0415 - dear to import

    # In this order: a datetime is a date.
    return {
        words.DECIMAL: (Decimal, str, Decimal),
        words.DATETIME: (datetime, datetime.isoformat, datetime.fromisoformat),
        words.DATE: (date, date.isoformat, date.fromisoformat),
        words.UUID: (UUID, str, UUID),
        words.BYTES: (bytes, lambda data: b64encode(data).decode("ascii"), partial(b64decode, validate=True)),
    }


def without_changed(scalars: Scalars, before: JsonValue, after: JsonValue) -> Scalars:
    """Return the scalars whose text is still there, after secrets in a result were masked."""
    return [each for each in scalars if _is_same_at(each[1], before, after)]


def _is_same_at(place: ScalarPlace, before: JsonValue, after: JsonValue) -> bool:
    try:
        return _at(before, place) == _at(after, place)
    except LookupError:
        return False


def _at(value: Any, place: ScalarPlace) -> object:
    for each in place:
        value = value[each]
    found: object = value
    return found


def _with_scalar(value: JsonValue, entry: JsonValue) -> Any:
    """Return a copied result with one of its texts replaced by the scalar that it stands for."""
    try:
        kind, *place = cast("Sequence[Any]", entry)
        read = _scalars()[kind][2]
        if not place:
            return read(cast(str, value))
        holder: Any = _at(value, tuple(place[:-1]))
        holder[place[-1]] = read(holder[place[-1]])
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise DamagedRecordError(words.SCALARS, "a list of scalars in the result") from error
    return value


def copied(value: JsonValue) -> Any:
    """Return a copy of a JSON value, of dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [copied(each) for each in value]
    return value


_OWN_RECORDS: Mapping[object, frozenset[type]] = {
    str: frozenset({str}),
    int: frozenset({int}),
    bool: frozenset({bool}),
    NoneType: frozenset({NoneType}),
    str | None: frozenset({str, NoneType}),
    int | None: frozenset({int, NoneType}),
}


def _own_records_of(declared: object) -> frozenset[type]:
    try:
        return _OWN_RECORDS.get(declared, frozenset())
    except TypeError:
        return frozenset()


_ANYTHING: tuple[object, ...] = (Any, object, Never, NoReturn)
_AWAITABLES: tuple[object, ...] = (Awaitable, Coroutine)


def codec_of(function: Callable[..., object]) -> ResultCodec:
    """Return how results of a function are recorded: by the type that it is annotated with.

    Raises:
        AgentDefinitionError: a result of that type could not be read back.
    """
    function = getattr(function, "func", function)
    plain: Any = unwrap(original_function(function))
    if "return" not in getattr(plain, "__annotations__", ()):
        plain = getattr(type(function), "__call__", None)  # noqa: B004 - the method, to read its annotations
        if "return" not in getattr(plain, "__annotations__", ()):
            return UNTYPED
    return _annotated_codec(plain)


def branch_codec(function: Callable[..., object]) -> ResultCodec:
    """Return how the result of a branch is recorded: without a type that can be read back, in its JSON form."""
    try:
        codec = codec_of(function)
    except AgentDefinitionError:
        return UNTYPED_BRANCH
    return UNTYPED_BRANCH if codec is UNTYPED else codec


def declared_codec(declared: object) -> ResultCodec:
    """Return how results of a declared type are recorded.

    Raises:
        AgentDefinitionError: a result of that type could not be read back.
    """
    if declared is None:
        declared = NoneType
    if declared in _ANYTHING or isinstance(declared, TypeVar):
        return UNTYPED
    return _BYTES if declared is bytes else _typed(declared)


@lru_cache(maxsize=1024)
def _typed(declared: object) -> ResultCodec:
    if isinstance(declared, type):
        return TypedCodec(declared)
    try:
        return TypedCodec(resolve_annotation(declared, {}))
    except UnresolvedAnnotationError as error:
        raise AgentDefinitionError(f"The type {spelling(declared)} cannot be resolved: {error}.") from error


class BytesCodec(UntypedCodec):
    """Records bytes."""

    same = frozenset()

    def encode(self, result: object) -> tuple[JsonValue, Scalars]:
        if not isinstance(result, bytes):
            raise TypeError(f"bytes are declared, and it is {type(result).__qualname__}")
        return super().encode(result)


_BYTES = BytesCodec()


@lru_cache(maxsize=1024)
def _annotated_codec(function: Any) -> ResultCodec:
    annotation: object = function.__annotations__["return"]
    try:
        returned = resolve_annotation(annotation, getattr(function, "__globals__", {}))
        if get_origin(returned) in _AWAITABLES:
            returned = get_args(returned)[-1]
        return declared_codec(returned)
    except UnresolvedAnnotationError as error:
        problem = f"has an annotation that cannot be resolved: {error}"
    except AgentDefinitionError as error:
        problem = f"cannot be read back from a record: {error}"
    name: str = getattr(function, "__qualname__", spelling(function))
    raise AgentDefinitionError(f"What {name} returns {problem}")


_NOTES = "__notes__"


def encode_error(error: BaseException, declared: DeclaredErrors) -> JsonObject:
    """Return the record of an error: its message, and its data if its class is kept.

    An error whose data has no JSON form is recorded as a plain one.
    """
    is_definite = isinstance(error, ToolError)
    message = str(error) if is_definite else f"{type(error).__name__}: {error}"
    code = (declared if is_definite else LIBRARY_ERRORS).code_for(error)
    if code is None:
        return {words.ERROR: message}
    attributes = {name: each for name, each in vars(error).items() if name != _NOTES}
    try:
        data, scalars = UNTYPED.encode({words.ARGS: error.args, words.DATA: attributes})
    except (TypeError, ValueError, RecursionError):
        return {words.ERROR: message}
    return {words.ERROR: message, words.DECLARED: {words.CODE: code, **record_of_result(data, scalars)}}


def encode_failure(failure: Failure) -> JsonObject:
    """Return the record of a failure; without words it is the view too."""
    record: JsonObject = {
        words.ERROR: failure.message,
        words.ERROR_TYPE: failure.error_type,
        words.ERROR_ID: failure.error_id,
    }
    return record if failure.words is None else {**record, words.WORDS: failure.words}


def decode_error(record: JsonObject, declared: DeclaredErrors) -> RunError:
    """Return the error of a record; one with a code that is not declared (any more) is a plain `ToolError`.

    Raises:
        DamagedRecordError: the record has another shape.
    """
    message, data = text_field(record, words.ERROR), optional_object(record, words.DECLARED)
    if words.ERROR_ID in record:
        return _decode_failure(record).raised()
    if data is None:
        return ToolError(message)
    code = text_field(data, words.CODE)
    made = declared.by_code.get(code) or LIBRARY_ERRORS.by_code.get(code)
    if made is None:
        return ToolError(message)
    found = UNTYPED.read(data)
    if not is_object(found):
        raise DamagedRecordError(words.RESULT, "an object")
    return _rebuilt(made, found)


def without_cause(error: BaseException) -> None:
    """Drop what led to an error: no record has it, so a program gets it neither live nor in replay."""
    if isinstance(error, RunError):
        error.__cause__ = error.__context__ = None


def _decode_failure(record: JsonObject) -> Failure:
    return Failure(
        text_field(record, words.ERROR_TYPE),
        text_field(record, words.ERROR_ID),
        optional_text(record, words.WORDS),
    )


def _rebuilt(made: type[RunError], data: Mapping[str, object]) -> RunError:
    """Make an error from its data without its constructor, whose parameters are not known."""
    args, attributes = data.get(words.ARGS), data.get(words.DATA)
    if not is_list(args) or not is_object(attributes):
        raise DamagedRecordError(words.DECLARED, "the data of an error")
    error = made.__new__(made, *args)
    error.args = tuple(args)
    vars(error).update(attributes)
    return error
