"""What happens when somebody calls `execute()` of an agent that the container made: a run is opened.

Inside a run, another agent's `execute()` is a child of that run. An agent made by hand is plain business logic, and
so is a sync `execute()`, which cannot wait for anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import lru_cache, wraps
from inspect import Parameter, Signature, signature
from types import MethodType
from typing import Any

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.execution import ExecuteShape
from pilotage.agent.yields import AgentYield, Final
from pilotage.runtime.door.effects import active_effects
from pilotage.runtime.journal.input_record import encode_input
from pilotage.runtime.runner import AgentRunner, answer_of, yields_of
from pilotage.runtime.service.opened_runs import typed_output


def open_runs_by_calling(instance: object, runner: AgentRunner) -> None:
    """Make `instance.execute(...)` open a run; the runner is attached to the instance, so there is room for it."""
    definition = runner.definition
    shape = definition.execution.shape if definition.execution else ExecuteShape.ASYNC_GENERATOR
    if shape is ExecuteShape.ASYNC_GENERATOR:
        opens = _streaming(definition.target.execute)
    elif shape is ExecuteShape.COROUTINE:
        opens = _answering(definition.target.execute)
    else:
        return
    object.__setattr__(instance, "execute", MethodType(opens, runner))


@lru_cache(maxsize=1024)
def _streaming(execute: Callable[..., object]) -> Callable[..., AsyncGenerator[AgentYield[Any], None]]:
    """What is called in the place of an `execute()` that streams, as a method of the runner."""

    @wraps(execute)
    async def stream(runner: AgentRunner, *args: Any, **kwargs: Any) -> AsyncGenerator[AgentYield[Any], None]:
        given = _given(runner, args, kwargs)
        if active_effects.get() is not None:
            yield Final(await _as_child(runner.definition, given))
            return
        async with aclosing(yields_of(await runner.open(given))) as batches:
            async for items in batches:
                for item in items:
                    yield item

    return stream


@lru_cache(maxsize=1024)
def _answering(execute: Callable[..., object]) -> Callable[..., Any]:
    """The same for one that answers."""

    @wraps(execute)
    async def answer(runner: AgentRunner, *args: Any, **kwargs: Any) -> Any:
        given = _given(runner, args, kwargs)
        if active_effects.get() is not None:
            return await _as_child(runner.definition, given)
        run = await runner.open(given)
        try:
            return answer_of(await run.result())
        finally:
            await run.leave()

    return answer


async def _as_child(definition: AgentDefinition, given: object) -> object:
    effects = active_effects.get()
    if effects is None:
        raise AssertionError("only a run has children")
    task = encode_input(definition, given)
    return typed_output(
        definition, await effects.children.run(definition.agent_id, definition.agent_id, task)
    )


def _given(runner: AgentRunner, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """The arguments by name, as `execute()` would take them; a declarative agent has one, which is its input."""
    execute: Callable[..., object] = runner.definition.target.execute
    names = _plain_names(execute)
    if names is not None and len(args) == len(names) and not kwargs:
        named: dict[str, Any] = dict(zip(names, args, strict=True))
    else:
        bound = _signature_of(execute).bind(runner.instance, *args, **kwargs)
        named = {name: each for name, each in bound.arguments.items() if name != "self"}
    return next(iter(named.values())) if runner.definition.execution is None else named


@lru_cache(maxsize=1024)
def _plain_names(execute: Callable[..., object]) -> tuple[str, ...] | None:
    """What all arguments are called, where each can be given by its place; else None."""
    _, *parameters = _signature_of(execute).parameters.values()
    is_plain = all(each.kind is Parameter.POSITIONAL_OR_KEYWORD for each in parameters)
    return tuple(each.name for each in parameters) if is_plain else None


@lru_cache(maxsize=1024)
def _signature_of(execute: Callable[..., object]) -> Signature:
    return signature(execute)
