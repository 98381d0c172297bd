"""What the branches of a `gather` come to together, given how each has ended so far. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias, assert_never

from pilotage.agent.ports.architecture import FailurePolicy
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject
from pilotage.values import value


@value
class Succeeded:
    """A branch has its result."""


@value
class Failed:
    """A branch failed for certain."""

    error: str


BranchEnd: TypeAlias = Succeeded | Failed


@value
class Taken:
    """The gather is decided: these branches count, in this order."""

    branches: tuple[int, ...]


@value
class GatherFailed:
    """The gather is decided: it fails."""

    error: str


Decision: TypeAlias = Taken | GatherFailed


def decide(
    ends: Mapping[int, BranchEnd], count: int, policy: FailurePolicy, quorum: int | None
) -> Decision | None:
    """What is certain by now, whatever the branches that have not ended will do; None while it is open.

    `ends` has the branches in the order in which they ended.
    """
    good = tuple(number for number, end in ends.items() if isinstance(end, Succeeded))
    bad = [(number, end.error) for number, end in sorted(ends.items()) if isinstance(end, Failed)]
    is_over = len(ends) == count
    match policy:
        case FailurePolicy.FAIL_FAST if bad:
            return GatherFailed(bad[0][1])
        case FailurePolicy.FAIL_FAST | FailurePolicy.COLLECT:
            return Taken(tuple(range(count))) if is_over else None
        case FailurePolicy.FIRST:
            if good:
                return Taken(good[:1])
            return GatherFailed(_all_failed(bad)) if is_over else None
        case FailurePolicy.QUORUM:
            wanted = quorum or count // 2 + 1
            if len(bad) > count - wanted:
                words = f"{len(bad)} of {count} branches failed, {wanted} must succeed"
                return GatherFailed(f"{words}: {bad[0][1]}" if bad else words)
            return Taken(tuple(sorted(good))) if is_over else None
        case _:
            assert_never(policy)


def check_gather(
    label: str, count: int, limit: int | None, policy: FailurePolicy, quorum: int | None
) -> None:
    """Refuse a gather that cannot be.

    Raises:
        AgentDefinitionError: the message names what is wrong.
    """
    if limit is not None and limit < 1:
        raise AgentDefinitionError(f"gather({label!r}): limit is {limit}. Let at least one branch run.")
    if quorum is not None and (policy is not FailurePolicy.QUORUM or not 1 <= quorum <= count):
        raise AgentDefinitionError(
            f"gather({label!r}): quorum is {quorum} of {count} branches with policy {policy.value!r}. "
            "Use FailurePolicy.QUORUM, and a quorum from 1 to the number of branches."
        )


def waits_below(
    path: str, run_id: str, asked: Mapping[str, JsonObject], theirs: Collection[str]
) -> list[str]:
    """Of the open questions of a run those that were asked below a path; `theirs` may come from children there."""
    return [
        wait
        for wait, request in asked.items()
        if wait in theirs
        or (request["agent_state_id"] == run_id and _place_of(request).startswith(f"{path}/"))
    ]


def _place_of(request: JsonObject) -> str:
    return str(request.get("action_id") or request.get("call_id") or "")


def _all_failed(bad: list[tuple[int, str]]) -> str:
    return f"all branches failed: {bad[0][1]}" if bad else "there are no branches"
