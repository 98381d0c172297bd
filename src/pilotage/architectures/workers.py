"""Workers: other agents of the application, run as children, or specs, run as parts of the run itself.

A worker that is an `@Agent` has its own tools, model and limits, and is a run of its own. One that is only a spec has
the tools of the agent that asks it, and instructions, loop and output type of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.model_request import ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies, workers_of
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.architectures.parts import carry_out
from pilotage.architectures.wording import as_text
from pilotage.checks import reject_blank, reject_empty
from pilotage.errors import AgentDefinitionError, ToolError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.architecture.dependencies import with_exits
from pilotage.runtime.architecture.registry import find_architecture


def take_output(session: AgentSession, deps: Dependencies, output: JsonValue) -> None:
    """Make what a worker gave the output of the session.

    Raises:
        AgentStructuredOutputError: the agent declares a type, and it is not of that type.
    """
    session.output = output if deps.output is None else deps.output.decode(output)


WorkerRef: TypeAlias = AgentRef | AgentExecutionSpec
"""An agent by class or by name, or a spec."""

_OF_A_SPEC = frozenset({"name", "objective", "instructions", "architecture", "output_type", "version"})


def check_workers(owner: object, field: str, workers: Mapping[str, WorkerRef]) -> None:
    """Refuse workers that cannot be asked.

    Raises:
        AgentDefinitionError: there are none, or one has no name, is no agent, or promises what a spec cannot keep.
    """
    reject_empty(owner, **{field: workers})
    for name, worker in workers.items():
        reject_blank(owner, **{field: name})
        check_worker(owner, f"{field}[{name!r}]", worker)


def check_worker(owner: object, field: str, worker: WorkerRef) -> None:
    """Refuse a worker that cannot be asked.

    Raises:
        AgentDefinitionError: it is no agent, or promises what a spec cannot keep.
    """
    what = f"{type(owner).__name__}.{field}"
    if isinstance(worker, AgentExecutionSpec):
        _check_spec(what, worker)
    elif isinstance(worker, str):
        reject_blank(owner, **{field: worker})
    elif AgentDefinition.get_or_none(worker) is None:
        raise AgentDefinitionError(
            f"{what} is {worker!r}, which is no agent. Give a class marked @Agent, the name of an agent, or a spec."
        )


def declared(workers: Mapping[str, WorkerRef]) -> Mapping[str, AgentRef]:
    """The agents among some workers; of a spec, those that its loop hands work to."""
    found: dict[str, AgentRef] = {}
    for name, worker in workers.items():
        if isinstance(worker, AgentExecutionSpec):
            below = workers_of(find_architecture(worker.architecture))
            found |= {f"{name}/{inner}": agent for inner, agent in below.items()}
        else:
            found[name] = worker
    return found


def purpose_of(worker: WorkerRef) -> str:
    """What a worker is good for, as far as it says so."""
    if isinstance(worker, AgentExecutionSpec):
        return worker.objective or _first_line(worker.instructions)
    definition = AgentDefinition.get_or_none(worker) if isinstance(worker, type) else None
    if definition is None:
        return ""
    return definition.spec.objective or _first_line(definition.instructions)


async def ask_worker(
    worker: WorkerRef,
    name: str,
    task: str,
    session: AgentSession,
    deps: Dependencies,
    *,
    exits: Sequence[ModelToolSpec] = (),
) -> JsonValue:
    """Let a worker do a task, and give its output; where its model takes one of the exits, that is its output.

    Raises:
        ToolError: it failed, or stopped short; the message says how far it got.
        AgentToolDispatchError: too many runs stand above it.
    """
    if not isinstance(worker, AgentExecutionSpec):
        return await deps.runtime.spawn_child(name, worker, task, exits=exits)
    output = None if worker.output_type is None else StructuredOutputSpec.from_type(worker.output_type)
    alone = AgentSession(session.id, worker.instructions or worker.objective or session.instructions)
    base = find_architecture(worker.architecture)
    left_by = with_exits(deps.with_output(output), base, exits)
    done = await carry_out(base, alone, left_by, name, task)
    if done.interrupted:
        raise ToolError(f"{name!r} stopped short ({done.interruption_reason}) at: {as_text(done.output)!r}")
    return to_json_value(done.output)


def _check_spec(what: str, spec: AgentExecutionSpec) -> None:
    plain = AgentExecutionSpec()
    fields = sorted(AgentExecutionSpec.__dataclass_fields__)
    more = [each for each in fields if each not in _OF_A_SPEC and getattr(spec, each) != getattr(plain, each)]
    if more:
        raise AgentDefinitionError(
            f"{what} is a spec with {', '.join(more)}, which only a run of its own can keep. "
            "Make it a class marked @Agent, or leave that out."
        )


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
