"""Which methods of a class are handlers of signals, and what cannot be one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from pilotage.agent import (
    Agent,
    AgentExecutionSpec,
    AgentSignal,
    AgentSignalKind,
    AgentYield,
    Progress,
    on_signal,
)
from pilotage.agent.handlers import read_signal_handlers
from pilotage.errors import AgentDefinitionError

EVENT, WAKE_UP = AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP
MESSAGES = "AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION, AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP"
SHAPE = "Write async def heard(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[Answer], None]."


class Listener:
    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress(signal.id)

    @on_signal(WAKE_UP)
    async def woken(self, signal: AgentSignal) -> AsyncIterator[AgentYield[str]]:
        yield Progress(signal.id)

    def other(self) -> None: ...


class Quiet(Listener):
    """What is overridden without the mark is no handler."""

    async def heard(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        yield Progress("nothing")


def test_handlers_are_found_by_the_kind_they_take() -> None:
    found = read_signal_handlers(Listener, [EVENT, WAKE_UP])
    assert dict(found) == {EVENT: Listener.heard, WAKE_UP: Listener.woken}


def test_handlers_are_inherited_and_may_be_overridden() -> None:
    assert dict(read_signal_handlers(Quiet, [EVENT, WAKE_UP])) == {WAKE_UP: Listener.woken}


def test_a_definition_knows_its_handlers() -> None:
    agent = Agent(spec=AgentExecutionSpec(accepted_signals=[EVENT, WAKE_UP]))(type("Heard", (Listener,), {}))
    assert set(Agent.get(agent).signal_handlers) == {EVENT, WAKE_UP}


@pytest.mark.parametrize("kind", ["smoke", 3, None])
def test_there_is_no_such_kind(kind: Any) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        on_signal(kind)
    assert str(caught.value) == (
        f"@on_signal({kind!r}): there is no such kind of signal. Write one of {MESSAGES}."
    )


@pytest.mark.parametrize("kind", ["cancel", "pause", "resume", "approval_decision"])
def test_the_run_itself_takes_control_signals(kind: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        on_signal(AgentSignalKind(kind))
    assert str(caught.value) == (
        f"@on_signal: the run itself takes {kind!r} signals. A handler can have one of {MESSAGES}."
    )


async def coroutine(self: object, signal: AgentSignal) -> None: ...


async def no_signal(self: object) -> AsyncGenerator[AgentYield[str], None]:
    yield Progress("x")


async def two_signals(
    self: object, signal: AgentSignal, other: AgentSignal
) -> AsyncGenerator[AgentYield[str], None]:
    yield Progress("x")


async def keyword(self: object, *, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
    yield Progress("x")


async def untyped(self: object, signal) -> AsyncGenerator[AgentYield[str], None]:  # type: ignore[no-untyped-def]
    yield Progress("x")


async def wrongly_typed(self: object, signal: str) -> AsyncGenerator[AgentYield[str], None]:
    yield Progress("x")


async def no_return(self: object, signal: AgentSignal):  # type: ignore[no-untyped-def]
    yield Progress("x")


async def wrong_item(self: object, signal: AgentSignal) -> AsyncGenerator[str, None]:
    yield "x"


async def unresolved(self: object, signal: AgentSignal) -> AsyncGenerator[Missing, None]:  # type: ignore[name-defined]  # noqa: F821
    yield Progress("x")


ONE = f"Wrong.heard handles signals: it is given one, and nothing else. {SHAPE}"
CASES: list[tuple[str, Callable[[], object], str]] = [
    ("coroutine", lambda: coroutine, f"Wrong.heard handles signals and is no async generator. {SHAPE}"),
    ("no signal", lambda: no_signal, ONE),
    ("two signals", lambda: two_signals, ONE),
    ("keyword", lambda: keyword, ONE),
    ("untyped", lambda: untyped, f"Wrong.heard: parameter 'signal' has no type. {SHAPE}"),
    ("wrong type", lambda: wrongly_typed, f"Wrong.heard: parameter 'signal' is of type str. {SHAPE}"),
    ("no return", lambda: no_return, f"Wrong.heard has no return type. {SHAPE}"),
    (
        "wrong item",
        lambda: wrong_item,
        "Wrong.heard: its AsyncGenerator yields str. Write AsyncGenerator[AgentYield[Answer], None].",
    ),
    (
        "unresolved",
        lambda: unresolved,
        "Wrong.heard: a type cannot be resolved: name 'Missing' is not defined. Define or import it above the class, "
        "at the top level of the module and not under TYPE_CHECKING.",
    ),
    (
        "staticmethod",
        lambda: staticmethod(no_signal),
        f"Wrong.heard is a staticmethod. Write a plain method: {SHAPE.removeprefix('Write ')}",
    ),
]


@pytest.mark.parametrize(("make", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_handler_takes_one_signal_and_yields_what_the_run_tells(
    make: Callable[[], Any], words: str
) -> None:
    handler = make()
    mark: Any = on_signal(EVENT)
    mark(getattr(handler, "__func__", handler))
    wrong = type("Wrong", (), {"heard": handler, "execute": _execute})
    with pytest.raises(AgentDefinitionError) as caught:
        Agent(spec=AgentExecutionSpec(accepted_signals=[EVENT]))(wrong)
    assert str(caught.value) == words


def _execute(self: object) -> str:
    return "x"


def test_one_kind_has_one_handler() -> None:
    class Twice(Listener):
        @on_signal(EVENT)
        async def also(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
            yield Progress("x")

    with pytest.raises(AgentDefinitionError) as caught:
        read_signal_handlers(Twice, [EVENT, WAKE_UP])
    assert str(caught.value) == (
        "Twice.heard and Twice.also both take 'external_event' signals. Let one handler take them."
    )


def test_a_handler_of_what_never_comes_is_a_mistake() -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        Agent(spec=AgentExecutionSpec(accepted_signals=[EVENT]))(type("Deaf", (Listener,), {}))
    assert str(caught.value) == (
        "Deaf.woken takes 'scheduler_wake_up' signals, and the agent does not accept them. "
        "Add AgentSignalKind.SCHEDULER_WAKE_UP to accepted_signals of its spec."
    )
