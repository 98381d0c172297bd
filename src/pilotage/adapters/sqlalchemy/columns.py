"""Column types that return exactly the stored value, on every database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Dialect, LargeBinary, Text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from pilotage.adapters.sqlalchemy.dialect import EPOCH, SqlDialect, microseconds
from pilotage.adapters.sqlalchemy.supported import dialect_of
from pilotage.jsonvalue import to_bytes

T = TypeVar("T")
R = TypeVar("R")

ESCAPED = "~"
"""The first character of a stored text that is escaped."""
_SECOND = 1_000_000
"""Microseconds."""


def to_stored(text: str) -> str:
    """Return a text as every database takes it: U+0000 and halves of surrogate pairs are escaped."""
    is_plain = "\x00" not in text and (text.isascii() or _is_utf8(text))
    if is_plain and text[:1] != ESCAPED:
        return text
    return ESCAPED + text.encode("unicode_escape").decode("ascii")


def is_stored_as_it_is(text: str) -> bool:
    """Return whether `to_stored` certainly changes no part of a text: many texts, joined or within JSON."""
    is_strange = ESCAPED in text or "\x00" in text or "\\u0000" in text
    return not is_strange and (text.isascii() or _is_utf8(text))


def stored_or_none(text: str | None) -> str | None:
    """Return `to_stored` of an optional text, without another call for nearly all of them."""
    if text is None or (text.isascii() and "\x00" not in text and text[:1] != ESCAPED):
        return text
    return to_stored(text)


def from_stored(text: str) -> str:
    """Return the text that was stored."""
    if not text.startswith(ESCAPED):
        return text
    return text[1:].encode("ascii").decode("unicode_escape")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Undecodable(str):
    """Stands for the value of a column that cannot be decoded; it is the reason. `stored_entries` names its row."""

    __slots__ = ()


UNDECODABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""The exceptions that decoding a damaged column or row raises."""


def _unless_none(convert: Callable[[T], R]) -> Callable[[T | None], R | None]:
    return lambda value: None if value is None else convert(value)


def _decoding(convert: Callable[[Any], R]) -> Callable[[Any], R | Undecodable | None]:
    """Return a conversion of stored values that never raises: the reader of one row must know which row it is."""

    def converted(stored: Any) -> R | Undecodable | None:
        if stored is None:
            return None
        try:
            return convert(stored)
        except UNDECODABLE as error:
            return Undecodable(f"{type(error).__name__}: {error}".partition("\n")[0][:200])

    return converted


class ExactText(TypeDecorator[str]):
    """Any Python text. Characters that a database refuses are stored as escapes, which people can still read."""

    impl = Text
    cache_ok = True

    # Given directly: the usual way calls two more functions for every value.
    def bind_processor(self, dialect: Dialect) -> Any:
        return stored_or_none

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        return _decoding(from_stored)


class HexText(TypeDecorator[str]):
    """Any Python text, as nearly all digests and salts are hex digits: those take half the room, as bytes.

    The first byte distinguishes them from other texts.
    """

    impl = LargeBinary
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Any:
        return _unless_none(to_packed)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        return _decoding(from_packed)


# The driver of SQLite looks for an adapter of each parameter that is `bytes`, at the price of binding three others; a
# `bytearray` is bound as it is.
_HEX, _OTHER = bytearray(b"x"), bytearray(b"~")


def to_packed(text: str) -> bytearray:
    """Return a text as bytes: two hex digits are one."""
    try:
        packed = bytes.fromhex(text)
    except ValueError:
        return _OTHER + to_bytes(text)
    # Blanks and capitals can be parsed as well, and would be lost.
    return _HEX + packed if packed.hex() == text else _OTHER + to_bytes(text)


def from_packed(packed: bytes) -> str:
    """Return the text that was packed."""
    if packed.startswith(_HEX):
        return packed[1:].hex()
    return packed[1:].decode(errors="surrogatepass")


class MomentColumn(TypeDecorator[datetime]):
    """A moment to the microsecond."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(dialect_of(dialect.name).moment_type)

    def bind_processor(self, dialect: Dialect) -> Any:
        return None if dialect_of(dialect.name).has_moments else _unless_none(microseconds)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:
        return _decoding(_in_utc if dialect_of(dialect.name).has_moments else _moment)


def as_moment(stored: int | datetime) -> datetime:
    """Return the moment that a database has stored."""
    return EPOCH + timedelta(microseconds=stored) if isinstance(stored, int) else _in_utc(stored)


def moment_text(stored: int | datetime) -> str:
    """Return the text of `as_moment`, in a tenth of its time for a number: rows of one second share their beginning."""
    if not isinstance(stored, int):
        return _in_utc(stored).isoformat()
    digits = str(stored)
    second = _second_text(digits[:-6]) if stored >= _SECOND else None
    if second is None or digits.endswith("000000"):
        return as_moment(stored).isoformat()
    return f"{second}.{digits[-6:]}+00:00"


@lru_cache(maxsize=64)
def _second_text(seconds: str) -> str:
    return (EPOCH + timedelta(seconds=int(seconds))).replace(tzinfo=None).isoformat()


def _moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


class now(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """The store's clock, the only one that all processes share."""

    type = MomentColumn()
    inherit_cache = True


class epoch_hour(FunctionElement[int]):  # noqa: N801 - reads as an SQL function
    """The number of whole hours from 1970 to a moment."""

    type = BigInteger()
    inherit_cache = True


class seconds_from_now(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """The moment that many seconds from now, by the store's clock."""

    type = MomentColumn()
    inherit_cache = True


class seconds_after(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """The moment that many seconds after another one."""

    type = MomentColumn()
    inherit_cache = True


class lease_now(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """The clock of leases: that of the server, or, for a file, the time since its machine started.

    The processes that open a file have one machine, and the time of day there can be set back or forward.
    """

    type = MomentColumn()
    inherit_cache = True


class lease_seconds_from_now(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """The moment that many seconds from now, by the clock of leases."""

    type = MomentColumn()
    inherit_cache = True


@compiles(now)
def _now(element: now, compiler: SQLCompiler, **options: Any) -> str:
    return _dialect(compiler).now


@compiles(lease_now)
def _lease_now(element: lease_now, compiler: SQLCompiler, **options: Any) -> str:
    return _dialect(compiler).lease_now


@compiles(epoch_hour)
def _epoch_hour(element: epoch_hour, compiler: SQLCompiler, **options: Any) -> str:
    return _dialect(compiler).hour.format(moment=compiler.process(element.clauses, **options))


@compiles(seconds_from_now)
def _later(element: seconds_from_now, compiler: SQLCompiler, **options: Any) -> str:
    dialect, seconds = _dialect(compiler), compiler.process(element.clauses, **options)
    return dialect.later.format(now=dialect.now, seconds=seconds)


@compiles(seconds_after)
def _after(element: seconds_after, compiler: SQLCompiler, **options: Any) -> str:
    moment, seconds = (compiler.process(clause, **options) for clause in element.clauses)
    return _dialect(compiler).later.format(now=moment, seconds=seconds)


@compiles(lease_seconds_from_now)
def _lease_later(element: lease_seconds_from_now, compiler: SQLCompiler, **options: Any) -> str:
    dialect, seconds = _dialect(compiler), compiler.process(element.clauses, **options)
    return dialect.later.format(now=dialect.lease_now, seconds=seconds)


def _dialect(compiler: SQLCompiler) -> SqlDialect:
    return dialect_of(compiler.dialect.name)
