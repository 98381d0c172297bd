"""Reads a function's signature: what the model fills, what is filled for it, what it returns.

All that is wrong with a signature is collected, each problem naming the function and the parameter.
"""

from __future__ import annotations

import inspect
from inspect import Parameter
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin

from pilotage.agent.tools.context import AgentToolRuntimeContext
from pilotage.agent.tools.declare import tool_label
from pilotage.annotations import Names, UnresolvedAnnotationError, resolve_annotation
from pilotage.safety.fields import SecretField
from pilotage.schema.constraints import is_field_default
from pilotage.schema.records import Default, KnownDefault, NoDefault
from pilotage.schema.rejections import Rejection, reject_unresolved
from pilotage.values import value

RUNTIME_CONTEXT = "runtime_context"
_UNIONS: tuple[object, ...] = (Union, UnionType)


@value
class ToolParameter:
    """A parameter that the model fills."""

    name: str
    annotation: object
    default: Default
    is_keyword_only: bool


@value
class InjectedParameter:
    """A parameter that the runtime fills: a secret, or the runtime context.

    `position` counts among all positional parameters after `self`; None means it goes by keyword.
    """

    name: str
    position: int | None
    default: Default
    secret: SecretField | None = None


@value
class ToolSignature:
    """A function as the model sees it; `problems` says why it cannot be a tool."""

    label: str
    parameters: tuple[ToolParameter, ...]
    injected: tuple[InjectedParameter, ...]
    returns: object
    problems: tuple[str, ...]


def read_signature(function: FunctionType) -> ToolSignature:
    """Everything about a function's signature."""
    signature = inspect.signature(function)
    reading = _SignatureReader(tool_label(function), Names(inspect.unwrap(function).__globals__))
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in {"self", "cls"}:
        parameters = parameters[1:]
    for position, parameter in enumerate(parameters):
        reading.add_parameter(parameter, position)
    return reading.finish(signature.return_annotation)


class _SignatureReader:
    def __init__(self, label: str, names: Names) -> None:
        self._label = label
        self._names = names
        self._parameters: list[ToolParameter] = []
        self._injected: list[InjectedParameter] = []
        self._problems: list[str] = []

    def add_parameter(self, parameter: Parameter, position: int) -> None:
        subject = parameter_subject(self._label, parameter.name)
        rejection = _wrong_kind(parameter) or _unannotated(parameter) or _wrong_default(parameter)
        if rejection is not None:
            self._problems.append(rejection.about(subject))
            return
        annotation = self._resolve(parameter.annotation, subject)
        if annotation is None:
            return
        secret = _secret_of(annotation)
        place = None if parameter.kind is Parameter.KEYWORD_ONLY else position
        default = _default_of(parameter)
        if parameter.name == RUNTIME_CONTEXT or _is_runtime_context(annotation):
            self._add_runtime_context(parameter.name, annotation, place, default)
        elif secret is not None:
            self._injected.append(InjectedParameter(parameter.name, place, default, secret))
        else:
            self._parameters.append(ToolParameter(parameter.name, annotation, default, place is None))

    def finish(self, returns: object) -> ToolSignature:
        subject = return_subject(self._label)
        if returns is inspect.Signature.empty:
            missing = Rejection("has no annotation", "Write '-> None', or the type the function returns.")
            self._problems.append(missing.about(subject))
            returns = None
        elif returns is not None:
            returns = self._resolve(returns, subject)
        return ToolSignature(
            label=self._label,
            parameters=tuple(self._parameters),
            injected=tuple(self._injected),
            returns=returns,
            problems=tuple(self._problems),
        )

    def _add_runtime_context(
        self, name: str, annotation: object, position: int | None, default: Default
    ) -> None:
        if name == RUNTIME_CONTEXT and _is_runtime_context(annotation):
            self._injected.append(InjectedParameter(name, position, default))
            return
        wrong = Rejection(
            "mixes up the runtime context", "Write 'runtime_context: AgentToolRuntimeContext', name and type."
        )
        self._problems.append(wrong.about(parameter_subject(self._label, name)))

    def _resolve(self, annotation: object, subject: str) -> object | None:
        """Return the type an annotation means; None when it cannot be resolved, which is a problem."""
        try:
            resolved = resolve_annotation(annotation, self._names)
        except UnresolvedAnnotationError as error:
            self._problems.append(reject_unresolved(str(error)).about(subject))
            return None
        return NoneType if resolved is None else resolved


def parameter_subject(label: str, name: str) -> str:
    return f"{label}: parameter {name!r}"


def return_subject(label: str) -> str:
    return f"{label}: the return value"


def _wrong_kind(parameter: Parameter) -> Rejection | None:
    match parameter.kind:
        case Parameter.POSITIONAL_ONLY:
            return Rejection("is positional-only", "Arguments come by name: remove the '/'.")
        case Parameter.VAR_POSITIONAL:
            return Rejection("takes any number of arguments (*)", "Write one parameter of type list[...].")
        case Parameter.VAR_KEYWORD:
            return Rejection(
                "takes any names (**)", "Write the parameters one by one, or one of type dict[str, ...]."
            )
        case _:
            return None


def _unannotated(parameter: Parameter) -> Rejection | None:
    if parameter.annotation is not Parameter.empty:
        return None
    return Rejection("has no annotation", f"Write its type, such as '{parameter.name}: str'.")


def _wrong_default(parameter: Parameter) -> Rejection | None:
    if not is_field_default(parameter.default):
        return None
    return Rejection(
        "has Field(...) as its default", "Write Annotated[<type>, Field(...)] = <default> instead."
    )


def _default_of(parameter: Parameter) -> Default:
    return NoDefault() if parameter.default is Parameter.empty else KnownDefault(parameter.default)


def _secret_of(annotation: object) -> SecretField | None:
    """Return the mark of a secret parameter, which may also be optional."""
    if get_origin(annotation) in _UNIONS:
        return next(filter(None, map(_secret_of, get_args(annotation))), None)
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, SecretField)), None)


def _is_runtime_context(annotation: object) -> bool:
    if get_origin(annotation) in _UNIONS:
        return all(each in (NoneType, AgentToolRuntimeContext) for each in get_args(annotation))
    return annotation is AgentToolRuntimeContext
