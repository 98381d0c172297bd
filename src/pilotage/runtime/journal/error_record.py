"""Errors as they are recorded and read back: a program gets the same error, live and in replay. Pure.

A declared error, and one of the library's own, has its code, its arguments and its attributes in the record; any other
one is a plain `ToolError`. Of a failure (`exposure.failures`) only the record has the words, never the view.
"""

from __future__ import annotations

from collections.abc import Mapping

from pilotage.agent.tools.declared_errors import LIBRARY_ERRORS, DeclaredErrors
from pilotage.errors import RunError, ToolError
from pilotage.jsonvalue import JsonObject, is_list, is_object
from pilotage.runtime.exposure.failures import Failure
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    optional_object,
    optional_text,
    text_field,
)
from pilotage.runtime.journal.result_codec import UNTYPED, record_of_result

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
