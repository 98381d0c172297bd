"""The keywords of `@Agent` that fill its spec: `durable=`, `output=`, `teammates=` and the limits.

Pure. A keyword and the spec may both declare a thing if they declare the same; a difference is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from pilotage.agent.delegation import AgentTeammate
from pilotage.agent.spec import AgentExecutionLimits, AgentExecutionSpec, RecoveryStrategy
from pilotage.container.names import snake_case, type_name
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import is_list

LIMITS = tuple(each.name for each in fields(AgentExecutionLimits))
"""The limits that are keywords of `@Agent`: all of them."""


def fill_spec(
    spec: AgentExecutionSpec,
    *,
    agent: str,
    durable: bool | None,
    output: object,
    teammates: Sequence[AgentTeammate | type[object]],
    limits: Mapping[str, Any],
) -> AgentExecutionSpec:
    """Return the spec with everything that the keywords declare; None and () declare nothing.

    Raises:
        AgentDefinitionError: a keyword and the spec declare different things, or a keyword is of another type.
    """
    if durable not in (None, True, False):
        raise AgentDefinitionError(
            f"{agent}: @Agent(durable={durable!r}) is no truth value. Write durable=True."
        )
    mates = _teammates(agent, teammates)
    declared = {name: given for name, given in limits.items() if given is not None}
    differences = (
        *_other_recovery(spec, durable),
        *_other_output(spec, output),
        *_other_teammates(spec, mates),
        *_other_limits(spec, declared),
    )
    for keyword, in_spec in differences:
        raise AgentDefinitionError(
            f"{agent}: @Agent({keyword}) contradicts {in_spec} of its spec. Declare one of them."
        )
    changes: dict[str, Any] = {
        "recovery": RecoveryStrategy.ACTION_BOUNDARY if durable else None,
        "output_type": output,
        "teammates": mates or None,
        "limits": replace(spec.limits, **declared) if declared else None,
    }
    changes = {name: each for name, each in changes.items() if each is not None}
    return replace(spec, **changes) if changes else spec


def _teammates(agent: str, given: object) -> tuple[AgentTeammate, ...]:
    """Return the teammates; a class is known by its name in snake case."""
    found: list[AgentTeammate] = []
    for each in given if is_list(given) else [None]:
        if isinstance(each, AgentTeammate):
            found.append(each)
        elif isinstance(each, type):
            found.append(AgentTeammate(snake_case(each.__name__), pod=each))
        else:
            raise AgentDefinitionError(
                f"{agent}: @Agent(teammates={given!r}) is no list of agents. Write teammates=[Librarian], "
                "or AgentTeammate(...) for another name."
            )
    return tuple(found)


def _other_recovery(spec: AgentExecutionSpec, durable: bool | None) -> Iterator[tuple[str, str]]:
    if durable is False and spec.recovery is not RecoveryStrategy.NONE:
        yield "durable=False", f"recovery={spec.recovery.name}"
    elif durable is False and spec.accepted_signals:
        yield "durable=False", "accepted_signals"


def _other_output(spec: AgentExecutionSpec, output: object) -> Iterator[tuple[str, str]]:
    if output is not None and spec.output_type not in (None, output):
        yield f"output={type_name(output)}", f"output_type={type_name(spec.output_type)}"


def _other_teammates(spec: AgentExecutionSpec, mates: tuple[AgentTeammate, ...]) -> Iterator[tuple[str, str]]:
    if mates and spec.teammates and mates != tuple(spec.teammates):
        names = [", ".join(each.name for each in side) for side in (mates, spec.teammates)]
        yield f"teammates=[{names[0]}]", f"teammates=[{names[1]}]"


def _other_limits(spec: AgentExecutionSpec, limits: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, given in limits.items():
        in_spec: object = getattr(spec.limits, name)
        if name == "timeout_seconds":
            in_spec = spec.effective_timeout_seconds
        if in_spec not in (None, given):
            yield f"{name}={given!r}", f"{name}={in_spec!r}"
