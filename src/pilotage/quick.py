"""`run` and `run_sync`: one run of one agent, in an application made for that run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, TypeVar, Unpack, overload

from pilotage.agent.ports.model import IAgentModel
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import (
    AsJson,
    AsText,
    Computes,
    ComputesAlone,
    Out,
    RunResult,
    Takes,
    TakesNothing,
    TakesOther,
    TextDoesNotFit,
    TypedResult,
)
from pilotage.errors import CallerError

Given = TypeVar("Given")


class RunOptions(TypedDict, total=False):
    """The options of `run` and `run_sync`."""

    model: IAgentModel | str | None
    add: Iterable[object]
    principal: Principal


@overload
async def run(
    agent: type[Takes[Given, Out]], given: Given | AsJson, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
async def run(
    agent: type[TakesNothing[Out]], given: AsJson | None = None, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
async def run(
    agent: type[Computes[Given, Out]], given: Given | AsJson, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
async def run(
    agent: type[ComputesAlone[Out]], given: AsJson | None = None, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
async def run(agent: type[TakesOther], given: str, **options: Unpack[RunOptions]) -> TextDoesNotFit: ...
@overload
async def run(agent: type[object], given: AsText = None, **options: Unpack[RunOptions]) -> RunResult: ...
async def run(
    agent: type[object],
    given: Any = None,
    *,
    model: IAgentModel | str | None = None,
    add: Iterable[object] = (),
    principal: Principal = LOCAL,
) -> Any:
    """Run an agent once and return its result; `add` has what it needs besides the pods it injects by their class.

    A `model` may be a name, such as `anthropic:NAME`. Without one, or one in `add`, an adapter that is installed and
    configured provides it, else the offline model.
    In a notebook the cell shows text and tool calls while the run is under way.

    Raises:
        ApplicationStartError: the agent cannot run like this; the message says what is missing.
    """
    # The runtime is imported when something runs, so that defining agents stays cheap.
    from pilotage.models.default import default_model  # noqa: PLC0415
    from pilotage.models.named import named_model  # noqa: PLC0415
    from pilotage.notebook import cell_view  # noqa: PLC0415
    from pilotage.runtime.quick import run_once  # noqa: PLC0415

    view = cell_view()
    try:
        return await run_once(
            agent,
            given,
            model=named_model(model) if isinstance(model, str) else model,
            add=add,
            principal=principal,
            default_model=default_model,
            watch=view.add if view else None,
        )
    finally:
        if view:
            view.close()


@overload
def run_sync(
    agent: type[Takes[Given, Out]], given: Given | AsJson, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
def run_sync(
    agent: type[TakesNothing[Out]], given: AsJson | None = None, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
def run_sync(
    agent: type[Computes[Given, Out]], given: Given | AsJson, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
def run_sync(
    agent: type[ComputesAlone[Out]], given: AsJson | None = None, **options: Unpack[RunOptions]
) -> TypedResult[Out]: ...
@overload
def run_sync(  # pyright: ignore[reportOverlappingOverload]
    agent: type[TakesOther], given: str, **options: Unpack[RunOptions]
) -> TextDoesNotFit: ...
@overload
def run_sync(agent: type[object], given: AsText = None, **options: Unpack[RunOptions]) -> RunResult: ...
def run_sync(
    agent: type[object],
    given: Any = None,
    *,
    model: IAgentModel | str | None = None,
    add: Iterable[object] = (),
    principal: Principal = LOCAL,
) -> Any:
    """Run an agent once like `run`, in a program without an event loop.

    Raises:
        ApplicationStartError: the agent cannot run like this; the message says what is missing.
        CallerError: there is an event loop already.
    """
    import asyncio  # noqa: PLC0415 - importing asyncio is slow

    if _has_loop():
        raise CallerError(
            f"run_sync({agent.__name__}) is called inside an event loop. Write: await run(...)."
        )
    results: list[RunResult] = []

    async def keep_result() -> None:
        # asyncio formats what its main task returned when it restores the signal handler: a whole transcript.
        results.append(await run(agent, given, model=model, add=add, principal=principal))

    asyncio.run(keep_result())
    return results[0]


def _has_loop() -> bool:
    from asyncio import get_running_loop  # noqa: PLC0415 - importing asyncio is slow

    try:
        get_running_loop()
    except RuntimeError:
        return False
    return True
