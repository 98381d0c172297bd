"""Symptoms in the text of a request: repeated content, and large packs that are not used.

Pure. Repeated content pollutes a context: a model trusts repeated content more. Material counts as used when later
replies name it or contain words of it; that is a heuristic, so only packs that are large and were shown for several
replies are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import ceil

from pilotage.agent.context import ContextHealthSignal, ContextPack, ContextPackRole, ContextRotSymptom
from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.context.assemble import TRANSCRIPT_ENTRY
from pilotage.jsonvalue import canonical_json

LARGE_PACK_CHARS = 2_000
"""Minimum length of a pack that is reported as unused."""
REPLIES_WITHOUT_USE = 3
"""Number of replies without use after which a pack is reported."""
_WORDS_OF_USE = 3
_REPEATED_RESULT_CHARS = 200
"""Minimum length of a result that counts as repeated; short ones such as "ok" repeat by chance."""
_MATERIAL = frozenset({ContextPackRole.EVIDENCE, ContextPackRole.TOOL_RESULT, ContextPackRole.MEMORY})
_WORD = re.compile(r"\w{5,}")


def repeated_packs(packs: Sequence[ContextPack], *, manifest_ref: str) -> tuple[ContextHealthSignal, ...]:
    """Return a signal for each pack with the content of one before it."""
    first: dict[str, str] = {}
    found: list[ContextHealthSignal] = []
    for pack in packs:
        content = pack.guarded_content().strip()
        original = first.setdefault(content, pack.id)
        if content and original != pack.id:
            found.append(
                ContextHealthSignal(
                    f"{manifest_ref}/repeated/{pack.id}",
                    ContextRotSymptom.POLLUTED,
                    manifest_ref=manifest_ref,
                    pack_id=pack.id,
                    metadata={"repeats": original},
                )
            )
    return tuple(found)


def repeated_results(
    messages: Sequence[ModelMessage], *, manifest_ref: str
) -> tuple[ContextHealthSignal, ...]:
    """Return the signal of a transcript with repeated long results of tools.

    Its score is their share of the transcript.
    """
    known: set[str] = set()
    repeated: list[str] = []
    for message in messages:
        if message.role is ModelMessageRole.TOOL and len(text := message.text) >= _REPEATED_RESULT_CHARS:
            if text in known:
                repeated.append(text)
            known.add(text)
    if not repeated:
        return ()
    everything = sum(len(message.text) for message in messages)
    signal = ContextHealthSignal(
        f"{manifest_ref}/repeated/{TRANSCRIPT_ENTRY}",
        ContextRotSymptom.POLLUTED,
        manifest_ref=manifest_ref,
        pack_id=TRANSCRIPT_ENTRY,
        score=sum(map(len, repeated)) / everything,
        metadata={"repeated_results": len(repeated)},
    )
    return (signal,)


def reply_count(messages: Iterable[ModelMessage]) -> int:
    """Return the number of replies of a model in a transcript."""
    return sum(message.role is ModelMessageRole.ASSISTANT for message in messages)


def unused_packs(
    packs: Sequence[ContextPack],
    messages: Sequence[ModelMessage],
    replies_before: Callable[[ContextPack], int],
    *,
    manifest_ref: str,
) -> tuple[ContextHealthSignal, ...]:
    """Return a signal for each large pack of material that no reply has used since it is shown.

    `replies_before` is the number of replies before a pack was shown first. Its score is the share of the replies
    that had it in view.
    """
    replies = [_reply_text(message) for message in messages if message.role is ModelMessageRole.ASSISTANT]
    asked = _words(message.text for message in messages if message.role is ModelMessageRole.USER)
    found: list[ContextHealthSignal] = []
    for pack in packs:
        content = pack.guarded_content()
        if pack.role not in _MATERIAL or len(content) < LARGE_PACK_CHARS:
            continue
        since = replies[replies_before(pack) :]
        if len(since) >= REPLIES_WITHOUT_USE and not _is_used(pack, content, since, asked):
            found.append(
                ContextHealthSignal(
                    f"{manifest_ref}/unused/{pack.id}",
                    ContextRotSymptom.LOW_RELEVANCE,
                    manifest_ref=manifest_ref,
                    pack_id=pack.id,
                    score=len(since) / len(replies),
                    metadata={"characters": len(content), "replies": len(since)},
                )
            )
    return tuple(found)


def _is_used(pack: ContextPack, content: str, replies: Sequence[str], asked: frozenset[str]) -> bool:
    named = re.compile(rf"(?<!\w){re.escape(pack.id)}(?!\w)")
    if any(map(named.search, replies)):
        return True
    own = _words([content]) - asked
    taken = own & _words(replies)
    return len(taken) >= min(_WORDS_OF_USE, ceil(len(own) / 2))


def _words(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word for text in texts for word in _WORD.findall(text.casefold()))


def _reply_text(message: ModelMessage) -> str:
    return " ".join([message.text, *(canonical_json(call.arguments) for call in message.tool_calls)])
