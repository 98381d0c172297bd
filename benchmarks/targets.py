"""What the figures should be, by their names."""

from __future__ import annotations

AT_MOST: dict[str, float] = {
    "import pilotage.agent / from pydantic import BaseModel": 1.3,
    "import pilotage / from pydantic import BaseModel": 1.3,
    "import pilotage, MB beyond pydantic": 10,
    "start of 1000 pods, ms": 500,
    "bind a small payload, us": 12,
    "chunk without a candidate, us": 10,
    "chunk with a word that may become an address, us": 30,
    "chunk of text full of secrets, us": 30,
    "the adapter / httpx lines, decoded": 2,
    "the adapter / the openai client": 1,
    "one run: declarative agent / semantic floor": 2.5,
    "per turn of 10: declarative agent / semantic floor": 2.2,
    "per turn of 50: declarative agent / semantic floor": 2.2,
    "per turn of 200: declarative agent / semantic floor": 2.2,
    "streamed deltas: semantic floor / events": 1.5,
    "per turn of 200 / per turn of 10": 1.1,
    "ReAct / the same loop written out": 1.1,
    "replay of 3000 model calls in folded branches, ms": 50,
    "replay of 3000 model calls in folded children, ms": 50,
    "build an agent with three tools: by the container, us": 10,
    "one run: commits": 4,
    "durable, per turn of 200 / per turn of 10": 1.1,
    "bytes per turn of 10": 3_000,
    "bytes per turn of 200": 3_000,
    "one run on SQLite NORMAL: CPU / floor": 12,
    "per turn of 10 on SQLite: CPU / floor": 6,
    "per turn of 50 on SQLite: CPU / floor": 6,
    "per turn of 200 on SQLite: CPU / floor": 6,
    "one run on SQLite FULL: commits": 4,
    "one run on PostgreSQL: CPU / floor": 1.2,
    "per turn of 10 on PostgreSQL: CPU / floor": 1,
    "a model of 20 ms on SQLite: commits of each further turn": 2,
    "a model of 20 ms on PostgreSQL: commits of each further turn": 2,
    "resume on SQLite behind 10 turns: CPU, us": 3_000,
    "resume on SQLite behind 50 turns: CPU, us": 4_000,
    "resume on SQLite behind 200 turns: CPU, us": 8_000,
    "1,000 waiting runs on SQLite: CPU, % of a core": 1,
    "1,000 waiting runs on PostgreSQL: CPU, % of a core": 1,
    "a claim among 100 open runs on SQLite, ms": 5,
    "a claim among 10,000 open runs on SQLite, ms": 5,
    "a claim among 100,000 open runs on SQLite, ms": 5,
    "a claim among 100 open runs on PostgreSQL, ms": 5,
    "a claim among 10,000 open runs on PostgreSQL, ms": 5,
    "a claim among 100,000 open runs on PostgreSQL, ms": 5,
    "1,000 killed runs on SQLite: CPU of each to be back, ms": 6,
    "1,000 killed runs on PostgreSQL: CPU of each to be back, ms": 6,
    "1,000 killed runs on SQLite: until the last is driven, s": 45,
    "1,000 killed runs on PostgreSQL: until the last is driven, s": 45,
    "one run on PostgreSQL: commits": 4,
    "on SQLite: per turn of 200 / per turn of 10": 1.1,
    "stored / payload, 1,000 calls of 2 kB": 3,
    "bytes stored per turn of 10": 1_656,
    "bytes stored per turn of 200": 1_656,
    "an active run, kB": 27,
    "an active durable run, kB": 27,
    "a subscription that is read, kB": 64,
    "a subscription that nobody reads, its queue full, kB": 64,
    "runtime objects that a paused run leaves": 0,
    "500 streams at once: memory of each, kB": 64,
    "a turn of a run with 1,000 readers / without": 1.1,
    "a commit of a run with 1,000 readers / without": 1.1,
}
AT_LEAST: dict[str, float] = {
    "plain text in 64 KB chunks, MB/s": 5,
    "streamed deltas: events, k/s": 250,
    "streamed deltas: items of execute(), k/s": 250,
    "streamed deltas: with a redaction policy, k/s": 100,
    "200 runs side by side, runs/s": 7_000,
    "200 durable runs side by side, runs/s": 1_100,
    "200 runs at once on SQLite: journal rows/s": 10_000,
    "200 runs at once on PostgreSQL: journal rows/s": 5_000,
}


def target_of(name: str, value: float) -> tuple[str, bool]:
    """The target of a figure in words, empty where it has none, and whether it is met."""
    if name in AT_MOST:
        return f"at most {AT_MOST[name]:,g}", value <= AT_MOST[name]
    if name in AT_LEAST:
        return f"at least {AT_LEAST[name]:,g}", value >= AT_LEAST[name]
    return "", True
