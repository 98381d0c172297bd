"""What no compaction may do, whoever wrote the strategy.

Pure. The rules:

- system messages, the first and the last message of the user, and evidence stay as they are;
- a summary of earlier turns may go only where a new summary takes its place;
- a call and all its results stay or go together;
- what is shown shorter still says who speaks, what is called and what is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from pilotage.agent.compaction.summary import is_summary
from pilotage.agent.compaction.turns import units_of
from pilotage.agent.messages import ModelMessage, ModelMessageRole

_STAYING = frozenset({ModelMessageRole.SYSTEM, ModelMessageRole.EVIDENCE})


def untouchable(messages: Sequence[ModelMessage]) -> frozenset[int]:
    """The messages that stay as they are."""
    users = [i for i, message in enumerate(messages) if message.role is ModelMessageRole.USER]
    staying = (i for i, m in enumerate(messages) if m.role in _STAYING and not is_summary(m))
    return frozenset((*users[:1], *users[-1:], *staying))


def broken_rules(
    messages: Sequence[ModelMessage],
    dropped: AbstractSet[int],
    replaced: Mapping[int, ModelMessage],
    *,
    has_summary: bool,
) -> tuple[str, ...]:
    """A sentence for everything a rewrite does that it may not do."""
    touched = sorted(dropped | replaced.keys())
    absent = [i for i in touched if not 0 <= i < len(messages)]
    if absent:
        return tuple(f"there is no message {i}" for i in absent)
    kept = untouchable(messages)
    return (
        *(f"message {i} ({messages[i].role.value}) must stay as it is" for i in touched if i in kept),
        *(f"message {i} is both dropped and replaced" for i in sorted(dropped & replaced.keys())),
        *_split_pairs(messages, dropped),
        *_about_the_summary(messages, dropped, has_summary),
        *(
            f"message {i} changes more than its content"
            for i in replaced
            if _differs(messages[i], replaced[i])
        ),
    )


def _split_pairs(messages: Sequence[ModelMessage], dropped: AbstractSet[int]) -> list[str]:
    units = [unit.members for unit in units_of(messages)]
    split = [members for members in units if dropped & set(members) and set(members) - dropped]
    return [f"messages {', '.join(map(str, members))} are a call and its results" for members in split]


def _about_the_summary(
    messages: Sequence[ModelMessage], dropped: AbstractSet[int], has_summary: bool
) -> list[str]:
    if has_summary:
        return [] if dropped else ["a summary needs messages that it stands for"]
    return [
        f"message {i} is a summary and nothing takes its place" for i in dropped if is_summary(messages[i])
    ]


def _differs(before: ModelMessage, after: ModelMessage) -> bool:
    same_calls = before.tool_calls == after.tool_calls and before.tool_call_id == after.tool_call_id
    return before.role is not after.role or not same_calls
