"""What the branches of a gather come to together, as tables."""

from __future__ import annotations

import pytest

from pilotage.agent.ports.architecture import FailurePolicy
from pilotage.errors import AgentDefinitionError
from pilotage.runtime.architecture.branches import (
    BranchEnd,
    Decision,
    Failed,
    GatherFailed,
    Succeeded,
    Taken,
    check_gather,
    decide,
)

FAST, COLLECT, QUORUM, FIRST = (
    FailurePolicy.FAIL_FAST,
    FailurePolicy.COLLECT,
    FailurePolicy.QUORUM,
    FailurePolicy.FIRST,
)
GOOD = Succeeded()


def bad(number: int) -> Failed:
    return Failed(f"no {number}")


@pytest.mark.parametrize(
    ("policy", "quorum", "ends", "expected"),
    [
        (FAST, None, {}, None),
        (FAST, None, {0: GOOD, 1: GOOD}, None),
        (FAST, None, {0: GOOD, 2: GOOD, 1: GOOD}, Taken((0, 1, 2))),
        (FAST, None, {2: bad(2)}, GatherFailed("no 2")),
        (FAST, None, {2: bad(2), 0: bad(0)}, GatherFailed("no 0")),
        (COLLECT, None, {0: bad(0), 1: GOOD}, None),
        (COLLECT, None, {0: bad(0), 1: GOOD, 2: bad(2)}, Taken((0, 1, 2))),
        (FIRST, None, {2: GOOD, 0: GOOD}, Taken((2,))),
        (FIRST, None, {0: bad(0), 1: bad(1)}, None),
        (FIRST, None, {1: bad(1), 0: bad(0), 2: bad(2)}, GatherFailed("all branches failed: no 0")),
        (QUORUM, 2, {0: GOOD, 1: GOOD}, None),
        (QUORUM, 2, {2: GOOD, 0: GOOD, 1: bad(1)}, Taken((0, 2))),
        (
            QUORUM,
            2,
            {1: bad(1), 0: bad(0)},
            GatherFailed("2 of 3 branches failed, 2 must succeed: no 0"),
        ),
        (QUORUM, None, {0: GOOD, 1: GOOD, 2: bad(2)}, Taken((0, 1))),
        (QUORUM, 3, {1: bad(1)}, GatherFailed("1 of 3 branches failed, 3 must succeed: no 1")),
    ],
)
def test_what_is_certain_by_now(
    policy: FailurePolicy, quorum: int | None, ends: dict[int, BranchEnd], expected: Decision | None
) -> None:
    assert decide(ends, 3, policy, quorum) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (FAST, Taken(())),
        (COLLECT, Taken(())),
        (FIRST, GatherFailed("there are no branches")),
        (QUORUM, GatherFailed("0 of 0 branches failed, 1 must succeed")),
    ],
)
def test_a_gather_of_nothing_is_decided_at_once(policy: FailurePolicy, expected: Decision) -> None:
    assert decide({}, 0, policy, None) == expected


@pytest.mark.parametrize(
    ("limit", "policy", "quorum", "words"),
    [
        (0, FAST, None, "limit is 0"),
        (None, FAST, 1, "Use FailurePolicy.QUORUM"),
        (None, QUORUM, 0, "quorum is 0 of 3"),
        (None, QUORUM, 4, "quorum is 4 of 3"),
    ],
)
def test_a_gather_that_cannot_be_is_refused(
    limit: int | None, policy: FailurePolicy, quorum: int | None, words: str
) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        check_gather("drafts", 3, limit, policy, quorum)
