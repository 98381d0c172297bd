"""`@on_signal`: methods of an agent that take in what is sent to its runs. Pure: read when the class is defined.

A handler takes the signals of one kind at the next boundary of the run, before they could become part of the
transcript. What it does goes through the run like everything else that the agent does; what it yields is streamed.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from inspect import Parameter
from types import FunctionType, MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

from pilotage.agent.execution import read_return, resolve_hints
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane
from pilotage.agent.yields import AgentYield
from pilotage.container.names import type_name
from pilotage.errors import AgentDefinitionError

SignalHandler: TypeAlias = Callable[[Any, AgentSignal], AsyncGenerator[AgentYield[Any], None]]
H = TypeVar("H", bound=SignalHandler)

_MARK = "__pilotage_on_signal__"
_KINDS = ", ".join(
    f"AgentSignalKind.{kind.name}" for kind in AgentSignalKind if kind.lane is AgentSignalLane.MESSAGE
)
_SHAPE = "async def {name}(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[Answer], None]"


def on_signal(kind: AgentSignalKind) -> Callable[[H], H]:
    """Make a method of an agent the handler of one kind of signal.

    Raises:
        AgentDefinitionError: there is no such kind, or the run itself takes signals of that kind.
    """
    if kind not in frozenset(AgentSignalKind):
        raise AgentDefinitionError(
            f"@on_signal({kind!r}): there is no such kind of signal. Write one of {_KINDS}."
        )
    wanted = AgentSignalKind(kind)
    if wanted.lane is AgentSignalLane.CONTROL:
        raise AgentDefinitionError(
            f"@on_signal: the run itself takes {wanted.value!r} signals. A handler can have one of {_KINDS}."
        )

    def mark(handler: H) -> H:
        setattr(handler, _MARK, wanted)
        return handler

    return mark


def read_signal_handlers(
    owner: type, accepted: Collection[AgentSignalKind]
) -> Mapping[AgentSignalKind, SignalHandler]:
    """The handlers of a class by the kind each of them takes.

    Raises:
        AgentDefinitionError: a handler cannot be one, two of them take one kind, or its kind never comes.
    """
    handlers: dict[AgentSignalKind, SignalHandler] = {}
    for name, kind, function in _marked(owner):
        if kind in handlers:
            other = getattr(handlers[kind], "__name__", "another one")
            raise AgentDefinitionError(
                f"{owner.__name__}.{name} and {owner.__name__}.{other} both take {kind.value!r} signals. "
                "Let one handler take them."
            )
        if kind not in accepted:
            raise AgentDefinitionError(
                f"{owner.__name__}.{name} takes {kind.value!r} signals, and the agent does not accept them. "
                f"Add AgentSignalKind.{kind.name} to accepted_signals of its spec."
            )
        _check_signature(f"{owner.__name__}.{name}", name, function)
        handlers[kind] = cast(SignalHandler, function)
    return MappingProxyType(handlers)


def _marked(owner: type) -> Iterator[tuple[str, AgentSignalKind, FunctionType]]:
    # Read from the classes themselves: every agent that is made is looked at, and asking `inspect` costs more than
    # making it.
    members: dict[str, object] = {}
    for holder in reversed(owner.__mro__[:-1]):
        # A copy is a plain dict, which is taken over several times as fast as what `vars` shows of a class.
        members.update(vars(holder).copy())
    marked = [
        (name, kind)
        for name, member in members.items()
        if (kind := getattr(getattr(member, "__func__", member), _MARK, None)) is not None
    ]
    for name, kind in sorted(marked):
        member = members[name]
        if not isinstance(kind, AgentSignalKind):
            continue
        if not isinstance(member, FunctionType):
            raise AgentDefinitionError(
                f"{owner.__name__}.{name} is a {type(member).__name__}. Write a plain method: "
                f"{_SHAPE.format(name=name)}."
            )
        yield name, kind, member


def _check_signature(qualified: str, name: str, function: FunctionType) -> None:
    way_out = f"Write {_SHAPE.format(name=name)}."
    if not inspect.isasyncgenfunction(function):
        raise AgentDefinitionError(f"{qualified} handles signals and is no async generator. {way_out}")
    parameters = list(inspect.signature(function).parameters.values())
    plain = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) != 2 or parameters[0].name != "self" or parameters[1].kind not in plain:
        raise AgentDefinitionError(
            f"{qualified} handles signals: it is given one, and nothing else. {way_out}"
        )
    hints = resolve_hints(qualified, function)
    given = hints.get(parameters[1].name)
    if given is not AgentSignal:
        got = "has no type" if given is None else f"is of type {type_name(given)}"
        raise AgentDefinitionError(f"{qualified}: parameter {parameters[1].name!r} {got}. {way_out}")
    if "return" not in hints:
        raise AgentDefinitionError(f"{qualified} has no return type. {way_out}")
    read_return(qualified, function, hints["return"])
