"""`@on_signal` and `@on_event`: methods for the signals of a run, and for facts about runs.

Pure: marks are read when a class is defined. A signal handler of an agent takes the signals of one kind at the next
boundary of the run, before they could become part of the transcript. Its effects go through the run like all others of
the agent; what it yields is streamed. A fact handler is a method of any pod.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from inspect import Parameter
from types import FunctionType, MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

from pilotage.agent.execution import read_return, resolve_hints
from pilotage.agent.facts import AgentFact
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane
from pilotage.agent.yields import AgentYield
from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.container.names import type_name
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

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
    """Return the handlers of a class by the kind each of them takes.

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


_SLOT = "__pilotage_on_event__"
_EXAMPLE = "Write @on_event(AgentRunCompleted) above a method (self, fact: AgentRunCompleted)."

M = TypeVar("M", bound=Callable[..., object])


def on_event(*facts: type[AgentFact]) -> Callable[[M], M]:
    """Let a method of a pod be called with every fact of these classes, or of classes derived from them.

    The method may be sync, then it runs in a thread, or async. Facts come in order per run and at least once: one whose
    method raises comes again, and is parked after some tries. So a method must be able to
    take a fact twice, recognised by its `id`.

    Raises:
        AgentDefinitionError: something else than classes of facts is named.
    """
    for fact in facts:
        if not (isinstance(fact, type) and issubclass(fact, AgentFact)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AgentDefinitionError(f"@on_event takes classes of facts, not {fact!r}. {_EXAMPLE}")
    if not facts:
        raise AgentDefinitionError(f"@on_event names no facts. {_EXAMPLE}")

    def mark(method: M) -> M:
        setattr(method, _SLOT, facts)
        return method

    return mark


@value
class FactSubscription:
    """A method that subscribes to facts: the class it is found in, its name, the classes of facts."""

    owner: type
    method: str
    facts: tuple[type[AgentFact], ...]

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"{self.owner.__name__}.{self.method}"

    def problem(self) -> tuple[str, str] | None:
        """Return what is wrong with the method, and the remedy; None where it can be called with its facts."""
        function: Any = inspect.getattr_static(self.owner, self.method)
        if isinstance(function, staticmethod | classmethod):
            return f"{self.name} is bound to no pod.", _EXAMPLE
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            return f"{self.name} is a generator, and what it yields is not used.", "Let it return nothing."
        takes = list(inspect.signature(function).parameters.values())[1:]
        if len(takes) != 1 or takes[0].kind not in _POSITIONAL:
            names = ", ".join(each.name for each in takes) or "nothing"
            return f"{self.name} takes {names} besides self, and is called with one fact.", _EXAMPLE
        return self._wrong_annotation(takes[0], getattr(function, "__globals__", {}))

    def _wrong_annotation(
        self, parameter: inspect.Parameter, names: dict[str, object]
    ) -> tuple[str, str] | None:
        if parameter.annotation is inspect.Parameter.empty:
            return None
        try:
            wanted = resolve_annotation(parameter.annotation, names)
        except UnresolvedAnnotationError as error:
            return f"{self.name}: the type of {parameter.name!r} cannot be found: {error}.", "Import it."
        unfit = [fact.__name__ for fact in self.facts if not _accepts(wanted, fact)]
        if not unfit:
            return None
        shown = getattr(wanted, "__name__", str(wanted))
        remedy = f"Let {parameter.name!r} be of the type that @on_event names, or AgentFact."
        return f"{self.name} takes {shown} and is subscribed to {', '.join(unfit)}.", remedy


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def subscriptions_of(owner: object) -> Iterator[FactSubscription]:
    """Yield the methods of a class that subscribe to facts, those of its bases included unless it overrides them."""
    seen: set[str] = set()
    if not isinstance(owner, type):
        return
    for base in owner.__mro__[:-1]:
        members = vars(base)
        for name, member in members.items():
            if name not in seen and (facts := _facts_for(member)):
                yield FactSubscription(owner, name, facts)
        seen.update(members)


def _facts_for(member: object) -> tuple[type[AgentFact], ...]:
    """Return the marks of a member of a class, above or below a decorator that makes it static."""
    marked: object = getattr(member, _SLOT, None)
    if marked is None:
        marked = getattr(getattr(member, "__func__", None), _SLOT, None)
    return cast("tuple[type[AgentFact], ...]", marked) if isinstance(marked, tuple) else ()


def _accepts(annotation: object, fact: type[AgentFact]) -> bool:
    """Return whether a parameter of this type takes the fact."""
    parts: tuple[object, ...] = getattr(annotation, "__args__", ())
    if parts:
        return any(_accepts(part, fact) for part in parts)
    return annotation is Any or (isinstance(annotation, type) and issubclass(fact, annotation))
