"""What streaming redaction costs: five patterns, token-sized chunks, and plain text in large ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from time import perf_counter

from benchmarks.timing import FULL, Effort

from pilotage.safety import StreamingRedactionPolicy, StreamingRedactionSession, StreamingSensitivePattern

PATTERNS = {
    "api key": r"\bsk-[A-Za-z0-9]{20,}",
    "aws key": r"\bAKIA[0-9A-Z]{16}\b",
    "e-mail": r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63})+",
    "card": r"\b(?:\d[ -]?){13,16}\b",
    "bearer": r"(?i:bearer) [\w.~+/-]+=*",
}
PROSE = (
    "the quick brown fox jumps over lazy dogs while agents stream their answers to people who read them "
    "slowly on screens that were built for speed"
)
SECRETS = ["sk-abcdefghijklmnopqrst1234", "bob@example.com", "AKIAABCDEFGHIJKLMNOP", "4111 1111 1111 1111"]
_ROUNDS = 5


def measure(effort: Effort = FULL) -> dict[str, float]:
    """Microseconds per chunk, and megabytes per second."""
    policy = StreamingRedactionPolicy(
        [StreamingSensitivePattern(name, source) for name, source in PATTERNS.items()], buffer_size=256
    )
    chance, words = random.Random(1), PROSE.split()
    plain = " ".join(chance.choices(words, k=effort.times(200_000)))
    mixed = " ".join(chance.choices([*words, *SECRETS], k=effort.times(20_000)))
    blanks = [", ", ". ", "\n", ") ", ": "] * effort.times(4_000)
    tokens = [f" {word}" for word in chance.choices(words, k=effort.times(20_000))]
    pieces = [mixed[start : start + 4] for start in range(0, len(mixed), 4)]
    blocks = [plain[start : start + 65_536] for start in range(0, len(plain), 65_536)]
    return {
        "chunk without a candidate, us": _seconds(policy, blanks) / len(blanks) * 1e6,
        "chunk with a word that may become an address, us": _seconds(policy, tokens) / len(tokens) * 1e6,
        "chunk of text full of secrets, us": _seconds(policy, pieces) / len(pieces) * 1e6,
        "plain text in 64 KB chunks, MB/s": len(plain) / _seconds(policy, blocks) / 1e6,
    }


def _seconds(policy: StreamingRedactionPolicy, chunks: Sequence[str]) -> float:
    return min(_once(policy, chunks) for _ in range(_ROUNDS))


def _once(policy: StreamingRedactionPolicy, chunks: Sequence[str]) -> float:
    session = StreamingRedactionSession(policy)
    start = perf_counter()
    for chunk in chunks:
        session.push(chunk)
    session.finish()
    return perf_counter() - start
