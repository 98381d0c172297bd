"""Arguments of tool calls: bound to names, validated by their types, as they were given and as they are executed. Pure.

A tool gets its arguments as they are read from JSON, for every caller: a repetition after a crash has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from inspect import Parameter, Signature, signature
from types import NoneType
from typing import Any, TypeAlias, cast

from pilotage.agent.tools.bind import validated_arguments
from pilotage.agent.tools.declare import original_function
from pilotage.agent.tools.schema import ToolInterface
from pilotage.errors import AgentToolBindingError
from pilotage.jsonvalue import JsonObject, to_json_object, to_json_value
from pilotage.schema.encoding import Encode, encoder_of
from pilotage.schema.records import KnownDefault, NoDefault, UnknownDefault
from pilotage.schema.shape import CoreSchema

ToolFunction: TypeAlias = Callable[..., object]

_SCALARS: frozenset[type] = frozenset({str, int, bool, NoneType})
_NO_TYPES: frozenset[type] = frozenset()
_PLAIN_TYPES: Mapping[str, frozenset[type]] = {
    "str": frozenset({str}),
    "int": frozenset({int}),
    "bool": frozenset({bool}),
    "none": frozenset({NoneType}),
}


class ToolParameters:
    """The parameters of a tool that callers fill: their defaults, types and JSON forms."""

    __slots__ = ("_defaults", "_encoders", "_interface", "_is_described", "_plain", "_required")

    def __init__(self, interface: ToolInterface) -> None:
        parameters = interface.parameters
        self._interface = interface
        self._defaults: dict[str, object] = {
            each.name: each.default.value if isinstance(each.default, KnownDefault) else Parameter.empty
            for each in parameters
        }
        self._is_described = any(isinstance(each.default, UnknownDefault) for each in parameters)
        """Whether a JSON schema describes the tool: only validation knows which parameters are required."""
        self._required = frozenset(each.name for each in parameters if isinstance(each.default, NoDefault))
        self._plain = _plain_types(interface)
        encoders: dict[str, Encode] = {each.name: encoder_of(each.annotation) for each in parameters}
        self._encoders = {name: each for name, each in encoders.items() if each is not to_json_value}

    def executed(self, given: dict[str, object]) -> dict[str, object]:
        """Return the arguments that a call is executed with: validated, defaults included.

        Raises:
            AgentToolBindingError: they do not fit; `problems` has one sentence for each reason.
        """
        plain = self._plain
        if self._is_described:
            return self._validated(given)
        for name, value in given.items():
            if type(value) not in plain.get(name, _NO_TYPES):
                return self._validated(given)
        if len(given) == len(self._defaults):
            return given
        if not self._required <= given.keys():
            return self._validated(given)
        return self.with_defaults(given)

    def with_defaults(self, given: Mapping[str, object]) -> dict[str, object]:
        """Return valid arguments together with the defaults of the others, in the order of the parameters."""
        if len(given) == len(self._defaults):
            return dict(given)
        complete = {**self._defaults, **given}
        return {name: each for name, each in complete.items() if each is not Parameter.empty}

    def encoded(self, arguments: Mapping[str, object]) -> JsonObject:
        """Return arguments as JSON, in the form that they are read from.

        Raises:
            TypeError: an argument has no JSON form.
        """
        if not self._encoders:
            for each in arguments.values():
                if type(each) not in _SCALARS:
                    return to_json_object(arguments)
            # Parameters have texts as names, and these values are JSON already.
            plain: dict[str, Any] = dict(arguments)
            return plain
        encoders = self._encoders
        return {name: encoders.get(name, to_json_value)(each) for name, each in arguments.items()}

    def repeated(self, recorded: JsonObject) -> dict[str, object]:
        """Return the recorded arguments of a call that is executed again, without parameters that are gone.

        Raises:
            AgentToolBindingError: the tool does not take them any more.
        """
        if not self._is_described:
            recorded = {name: each for name, each in recorded.items() if name in self._defaults}
        return validated_arguments(self._interface, recorded)

    def _validated(self, given: Mapping[str, object]) -> dict[str, object]:
        try:
            asked = self.encoded(given)
        except TypeError as error:
            problem = f"An argument cannot be recorded: {error}."
            raise AgentToolBindingError(f"{self._interface.label}: {problem}", problems=[problem]) from error
        return validated_arguments(self._interface, asked)


def _plain_types(interface: ToolInterface) -> Mapping[str, frozenset[type]]:
    """Return by parameter the types of values that need no validation; parameters without such types are left out."""
    core = interface.core_schema
    if core["type"] == "definitions":
        core = cast(CoreSchema, core["schema"])
    fields = cast("Mapping[str, CoreSchema]", core.get("fields", {}))
    found = {name: _plain_types_of(cast(CoreSchema, field["schema"])) for name, field in fields.items()}
    return {name: types for name, types in found.items() if types}


def _plain_types_of(core: CoreSchema) -> frozenset[type]:
    kind = str(core["type"])
    if kind == "default":
        return _plain_types_of(cast(CoreSchema, core["schema"]))
    if kind == "nullable":
        inner = _plain_types_of(cast(CoreSchema, core["schema"]))
        return inner | {NoneType} if inner else inner
    return _PLAIN_TYPES.get(kind, _NO_TYPES) if len(core) == 1 else _NO_TYPES


def given_by_name(
    tool: ToolFunction, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments of a call by name, without defaults, in the order of the parameters.

    Raises:
        TypeError: the function has no such parameters; the error of a real call.
    """
    names = _names_of(tool)
    if names is None or len(args) > len(names) or not kwargs.keys() <= names.keys():
        return _bound_by_signature(tool, args, kwargs)
    given: dict[str, object] = dict(zip(names, args, strict=False))
    if not kwargs:
        return given
    if not given.keys().isdisjoint(kwargs):
        return _bound_by_signature(tool, args, kwargs)
    for name in names:
        if name in kwargs:
            given[name] = kwargs[name]
    return given


def part_given(asked: JsonObject, given: Collection[str] | None) -> JsonObject:
    """Return the part of the arguments that a caller gave; None for all of them."""
    if given is None or len(given) >= len(asked):
        return asked
    return {name: each for name, each in asked.items() if name in given}


def _bound_by_signature(
    tool: ToolFunction, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments bound by `inspect`, for all kinds of parameters; it raises the errors of a real call."""
    return dict(_signature_of(tool).bind_partial(*args, **kwargs).arguments)


@lru_cache(maxsize=1024)
def _names_of(tool: ToolFunction) -> dict[str, None] | None:
    """Return the names of the parameters if each may be positional or by keyword; else None."""
    parameters = _signature_of(tool).parameters
    is_plain = all(each.kind is Parameter.POSITIONAL_OR_KEYWORD for each in parameters.values())
    return dict.fromkeys(parameters) if is_plain else None


@lru_cache(maxsize=1024)
def _signature_of(tool: ToolFunction) -> Signature:
    return signature(original_function(tool))
