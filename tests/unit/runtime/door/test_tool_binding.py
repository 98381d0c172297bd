"""Which arguments a call of a tool has, by name: the same as `inspect` says, whatever way they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature

import pytest

from pilotage import Pod, ToolEffects, agent_tool
from pilotage.errors import AgentToolBindingError
from pilotage.runtime.door.tool_binding import read_invocation

READ = ToolEffects.read_only()


@Pod
class Desk:
    @agent_tool(effects=READ)
    async def plain(self, first: int, second: str = "b", third: float = 0.5) -> str:
        """Take some things."""
        return second

    @agent_tool(effects=READ)
    async def by_name_only(self, first: int, *, second: str = "b") -> str:
        """Take one thing by its name."""
        return second


DESK = Desk()
CALLS: list[tuple[Callable[..., object], tuple[object, ...], Mapping[str, object]]] = [
    (Desk.plain, (1,), {}),
    (Desk.plain, (1, "x"), {}),
    (Desk.plain, (1,), {"third": 2.0}),
    (Desk.plain, (), {"third": 2.0, "first": 1}),
    (Desk.plain, (1, "x", 2.0), {}),
    (Desk.by_name_only, (1,), {}),
    (Desk.by_name_only, (1,), {"second": "x"}),
]
WRONG_CALLS: list[tuple[tuple[object, ...], Mapping[str, object]]] = [
    ((1, "x", 2.0, "more"), {}),
    ((1,), {"first": 2}),
    ((1,), {"fourth": 2}),
]


@pytest.mark.parametrize(("tool", "args", "kwargs"), CALLS)
def test_arguments_are_those_that_inspect_finds_in_their_order(
    tool: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> None:
    bound = signature(tool).bind_partial(DESK, *args, **kwargs)
    bound.apply_defaults()
    wanted = [(name, value) for name, value in bound.arguments.items() if name != "self"]
    invocation = read_invocation(tool, (DESK, *args), kwargs)
    assert list(invocation.arguments.items()) == wanted
    assert invocation.owner is DESK


UNFIT_CALLS: list[tuple[tuple[object, ...], Mapping[str, object], str]] = [
    ((), {}, "'first' is missing"),
    (("many",), {}, "'first' should be a valid integer"),
    ((1, None), {}, "'second' should be a valid string"),
    ((1, "x", float("nan")), {}, "'third' should be a finite number"),
    ((object(),), {}, "object has no JSON form"),
]


@pytest.mark.parametrize(("args", "kwargs", "words"), UNFIT_CALLS)
def test_arguments_of_another_type_are_refused(
    args: tuple[object, ...], kwargs: Mapping[str, object], words: str
) -> None:
    with pytest.raises(AgentToolBindingError, match=words):
        read_invocation(Desk.plain, (DESK, *args), kwargs)


def test_arguments_are_read_as_from_json() -> None:
    invocation = read_invocation(Desk.plain, (DESK, "7"), {"third": 3})
    assert invocation.arguments == {"first": 7, "second": "b", "third": 3.0}
    assert [type(each) for each in invocation.arguments.values()] == [int, str, float]
    assert list(invocation.given or ()) == ["first", "third"]


@pytest.mark.parametrize(("args", "kwargs"), WRONG_CALLS)
def test_arguments_that_do_not_fit_are_refused_in_the_words_of_inspect(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> None:
    with pytest.raises(TypeError) as wanted:
        signature(Desk.plain).bind_partial(DESK, *args, **kwargs)
    with pytest.raises(TypeError) as refused:
        read_invocation(Desk.plain, (DESK, *args), kwargs)
    assert str(refused.value) == str(wanted.value)
