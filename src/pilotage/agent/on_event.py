"""`@on_event`: marks a method of a pod as one that wants to hear of facts about runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from pilotage.agent.facts import AgentFact
from pilotage.annotations import UnresolvedAnnotationError, resolve_annotation
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

_SLOT = "__pilotage_on_event__"
_EXAMPLE = "Write @on_event(AgentRunCompleted) above a method (self, fact: AgentRunCompleted)."

M = TypeVar("M", bound=Callable[..., object])


def on_event(*facts: type[AgentFact]) -> Callable[[M], M]:
    """Let a method of a pod be called with every fact of these classes, or of classes derived from them.

    The method may be sync, then it runs in a thread, or async. Facts come in order per run and at least once: one whose
    method raises comes again, and is parked after some tries. So a method must not mind to hear of a fact twice; its
    `id` tells.

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
    """A method that wants to hear of facts: the class it is found in, its name, the classes of facts."""

    owner: type
    method: str
    facts: tuple[type[AgentFact], ...]

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.owner.__name__}.{self.method}"

    def problem(self) -> tuple[str, str] | None:
        """What is wrong with the method and the way out, in words; None where it can be called with its facts."""
        function: Any = inspect.getattr_static(self.owner, self.method)
        if isinstance(function, staticmethod | classmethod):
            return f"{self.name} is bound to no pod.", _EXAMPLE
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            return f"{self.name} is a generator, and nobody takes what it yields.", "Let it return nothing."
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
    """The methods of a class that want to hear of facts, those of its bases included unless it overrides them."""
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
    """What a member of a class is marked with, above or below a decorator that makes it static."""
    marked: object = getattr(member, _SLOT, None)
    if marked is None:
        marked = getattr(getattr(member, "__func__", None), _SLOT, None)
    return cast("tuple[type[AgentFact], ...]", marked) if isinstance(marked, tuple) else ()


def _accepts(annotation: object, fact: type[AgentFact]) -> bool:
    """Whether a parameter of this type takes the fact."""
    parts: tuple[object, ...] = getattr(annotation, "__args__", ())
    if parts:
        return any(_accepts(part, fact) for part in parts)
    return annotation is Any or (isinstance(annotation, type) and issubclass(fact, annotation))
