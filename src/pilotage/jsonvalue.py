"""JSON values: the types, the canonical text, the conversion of Python values.

Pure: no I/O. Digests and fingerprints are made of canonical text: sorted keys, no blanks, no needless
escapes, no NaN.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import Field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isfinite
from operator import is_
from typing import Any, TypeAlias, TypeGuard

JsonPrimitive: TypeAlias = bool | float | int | str | None
JsonValue: TypeAlias = "JsonPrimitive | Mapping[str, JsonValue] | Sequence[JsonValue]"
JsonObject: TypeAlias = Mapping[str, JsonValue]

_BINARY = (bytes, bytearray, memoryview)
_NO_LISTS = (str, *_BINARY)
_PRIMITIVES = (bool, int, float, str)
_PLAIN = frozenset({*_PRIMITIVES, type(None)})


empty_object: Callable[[], JsonObject] = dict
"""Makes a new empty object, the default of every `metadata` field."""


def canonical_json(value: JsonValue) -> str:
    """Return the canonical text of a JSON value: equal values have equal texts, whatever the order of their keys."""
    return "".join(_pieces(value, 0))


def in_record_order(value: JsonValue) -> JsonValue:
    """Return a JSON value with the keys of its objects in the order of canonical text; the value itself if they are so.

    A program that writes an object as text writes the same text when the object comes back from a record.
    """
    # Every reply and every result passes here, and most of what they have is a scalar, empty, or flat and in order.
    if not value or type(value) in _PLAIN:
        return value
    if is_object(value):
        known: Any = value
        as_it_is: JsonObject = known
        if _is_flat_and_ordered(as_it_is):
            return as_it_is
        names = sorted(known)
        ordered = {name: in_record_order(known[name]) for name in names}
        is_so = names == [*known] and all(map(is_, ordered.values(), known.values()))
        return as_it_is if is_so else ordered
    if is_list(value):
        items: Any = value
        inner = [in_record_order(each) for each in items]
        return items if all(map(is_, inner, items)) else inner
    return value


def _is_flat_and_ordered(known: Mapping[str, JsonValue]) -> bool:
    last = ""
    for name, each in known.items():
        if name < last or type(each) not in _PLAIN:
            return False
        last = name
    return True


def parsed(text: str) -> JsonValue:
    """Return the value of a canonical text; faster than `json.loads`, because there are no blanks around it.

    Raises:
        ValueError: it is no JSON; NaN and numbers that no float holds are none.
    """
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        value, end = None, -1
    found: JsonValue = value if end == len(text) else _decoder.decode(text)
    return found


def repeated_key(text: str | bytes) -> str | None:
    """Return a key that an object in a JSON text has twice, None where there is none or the text is no JSON.

    Readers differ in which of the two counts, so a text from outside must not have one.
    """
    try:
        json.loads(text, object_pairs_hook=_unique, parse_int=str, parse_float=str, parse_constant=str)
    except _RepeatedKeyError as found:
        return shortened(found.key)
    except (ValueError, RecursionError):
        return None
    return None


def parsed_input(text: str) -> JsonValue:
    """Return the value of a JSON text from outside.

    Raises:
        ValueError: it is no JSON, or an object in it has a key twice.
    """
    repeated = repeated_key(text)
    if repeated is not None:
        raise ValueError(f"the key {repeated!r} is there twice. Give it once")
    return parsed(text)


class _RepeatedKeyError(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _RepeatedKeyError(name)
        seen.add(name)


def shortened(name: str, longest: int = 64) -> str:
    """Return the beginning of a name from outside, for a message."""
    return name if len(name) <= longest else f"{name[:longest]}…"


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a value is a mapping; its keys are texts, as far as JSON and keyword arguments go."""
    return isinstance(value, (dict, Mapping))


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether a value is a sequence, other than a text or bytes."""
    return not isinstance(value, _NO_LISTS) and isinstance(value, (list, tuple, Sequence))


def as_object(value: JsonValue) -> JsonObject:
    """Return a JSON value that is an object.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, (dict, Mapping)):
        return value
    raise TypeError(f"a JSON object is needed here, not {type(value).__name__}")


def as_list(value: JsonValue) -> Sequence[JsonValue]:
    """Return a JSON value that is a list.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, (list, tuple)):
        return value
    raise TypeError(f"a JSON list is needed here, not {type(value).__name__}")


def as_string(value: JsonValue) -> str:
    """Return a JSON value that is a text.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, str):
        return value
    raise TypeError(f"a text is needed here, not {type(value).__name__}")


def as_integer(value: JsonValue) -> int:
    """Return a JSON value that is a whole number.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, int):
        return value
    raise TypeError(f"a whole number is needed here, not {type(value).__name__}")


def object_or_empty(value: JsonValue) -> JsonObject:
    """Return a JSON value that is an object, and an empty object instead of anything else."""
    return value if isinstance(value, (dict, Mapping)) else {}


def list_or_empty(value: JsonValue) -> Sequence[JsonValue]:
    """Return a JSON value that is a list, and an empty list instead of anything else."""
    return value if isinstance(value, (list, tuple)) else ()


def json_digest(value: JsonValue) -> str:
    """Return the digest of the canonical text."""
    return text_digest(canonical_json(value))


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    digest: str = _sha256()(text.encode("utf-8", "surrogatepass")).hexdigest()
    return digest


@cache
def _sha256() -> Callable[[bytes], Any]:
    from hashlib import sha256  # noqa: PLC0415 - loading OpenSSL costs more than all our values

    return sha256


def to_bytes(text: str) -> bytes:
    """Return the bytes of a text. Text from outside may hold lone surrogates, which plain UTF-8 refuses."""
    return text.encode("utf-8", "surrogatepass")


def to_json_value(value: object) -> JsonValue:
    """Turn a Python value into JSON: dataclasses, pydantic models, enums, dates, decimals, collections.

    Raises:
        TypeError: the value, or something in it, has no JSON form; the message says which type.
    """
    kind = type(value)
    # Its type is checked. No `cast`: that is a call, and most values are plain.
    known: Any = value
    if kind in _PLAIN:
        plain: JsonValue = known
        return plain
    if kind is dict:
        return to_json_object(known)
    if kind is list or kind is tuple:
        return [to_json_value(item) for item in known]
    return _from_derived(value)


def to_json_object(entries: Mapping[Any, Any]) -> JsonObject:
    """Turn the entries of a mapping into JSON.

    Raises:
        TypeError: something in it has no JSON form.
    """
    return {
        key if type(key) is str else _key(key): item if type(item) in _PLAIN else to_json_value(item)
        for key, item in entries.items()
    }


def _from_derived(value: object) -> JsonValue:
    """Return the JSON form of a value of a derived class or of any other class."""
    known: Any = value
    if isinstance(value, Enum):
        return to_json_value(value.value)
    if isinstance(value, _PRIMITIVES):
        return _without_subclass(value)
    if isinstance(value, Mapping):
        return {_key(key): to_json_value(item) for key, item in known.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_value(item) for item in known]
    return _from_rich(known)


def _without_subclass(value: str | float) -> JsonValue:
    """Return a text or number of a subclass as a plain one, as its JSON is read back."""
    if isinstance(value, str):
        return str.__str__(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def _from_rich(value: object) -> JsonValue:
    known: Any = value
    dump: Callable[..., JsonValue] | None = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return with_sets_in_order(dump(mode="json"), dump)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_json_value(getattr(value, field.name))
            for field in fields(value)
            if not field.metadata or _is_written(field, value)
        }
    return _from_leaf(known)


def with_sets_in_order(dumped: JsonValue, dump: Callable[[], object]) -> JsonValue:
    """Return what pydantic dumped as JSON with its sets sorted; `dump` returns the same with sets as sets.

    Their own order is another one in each process: it depends on the hashes of texts.
    """
    return _with_sets_in_order(dumped, dump()) if _may_have_sets(dumped) else dumped


def _may_have_sets(dumped: JsonValue) -> bool:
    if isinstance(dumped, dict):
        return any(_may_have_sets(each) for each in dumped.values())
    return isinstance(dumped, list) and (_has_chance_order(dumped) or any(map(_may_have_sets, dumped)))


def _has_chance_order(items: Sequence[JsonValue]) -> bool:
    """Return whether a set of these may have another order in each process: one of numbers has the same in all."""
    return len(items) > 1 and not all(isinstance(each, (float, int)) for each in items)


def _with_sets_in_order(dumped: JsonValue, value: object) -> JsonValue:
    known: Any = value
    if isinstance(dumped, dict) and isinstance(value, Mapping) and len(dumped) == len(known):
        both = zip(dumped.items(), known.values(), strict=True)
        return {name: _with_sets_in_order(each, one) for (name, each), one in both}
    if not isinstance(dumped, list) or not isinstance(value, (AbstractSet, list, tuple)):
        return dumped
    if len(dumped) != len(known):
        return dumped
    items = [_with_sets_in_order(each, one) for each, one in zip(dumped, known, strict=True)]
    if isinstance(value, AbstractSet) and _has_chance_order(items):
        return sorted(items, key=canonical_json)
    return items


def _is_written(field: Field[Any], value: object) -> bool:
    """Return whether a field is part of the JSON form of a value: see `values.NEVER_JSON`, `LEFT_OUT_BY_DEFAULT`."""
    written = field.metadata.get("json")
    return written is None or (written != "never" and getattr(value, field.name) != field.default)


def _from_leaf(value: object) -> JsonValue:
    known: Any = value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal) or _is_uuid(value):
        return str(value)
    if isinstance(value, AbstractSet):
        return sorted((to_json_value(item) for item in known), key=canonical_json)
    if isinstance(value, Sequence) and not isinstance(value, _BINARY):
        return [to_json_value(item) for item in known]
    raise TypeError(f"{type(known).__qualname__} has no JSON form")


def _is_uuid(value: object) -> bool:
    """Return whether a value is a UUID, without importing the module."""
    return (uuid := sys.modules.get("uuid")) is not None and isinstance(value, uuid.UUID)


def _key(key: object) -> str:
    if isinstance(key, Enum):
        key = key.value
    if not isinstance(key, str):
        raise TypeError(f"a JSON key must be a string, not {type(key).__qualname__} ({key!r})")
    return str.__str__(key)


def _plain(value: object) -> object:
    """Return mappings and sequences as dict and list, for the standard encoder."""
    known: Any = value
    if isinstance(value, Mapping):
        return dict(known)
    if isinstance(value, Sequence):
        return list(known)
    raise TypeError(f"{type(value).__qualname__} has no JSON form")


def _encoder() -> Callable[[JsonValue, int], Iterable[str]]:
    """Return the encoder of canonical text.

    The standard library makes its fast encoder anew for every text; made once, a text takes a third of the time.
    """
    standard = json.JSONEncoder(
        sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _: standard.iterencode(value)
    fast: Callable[[JsonValue, int], Iterable[str]] = make(
        markers=None,
        default=_plain,
        encoder=json.encoder.encode_basestring,
        indent=None,
        key_separator=":",
        item_separator=",",
        sort_keys=True,
        skipkeys=False,
        allow_nan=False,
    )
    return fast


_pieces = _encoder()


def _finite(text: str) -> float:
    """Return a number of a JSON text; NaN, the infinities and what is too large for a float are none."""
    number = float(text)
    if isfinite(number):
        return number
    raise ValueError(f"{text[:20]} is no number of JSON")


_decoder: Any = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once
