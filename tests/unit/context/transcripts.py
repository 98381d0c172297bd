"""Transcripts to condense: small ones by hand, odd ones by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from pilotage.agent.messages import ModelMessage, ModelToolCall

LONG = "x" * 1_000


def a_turn(number: int, result: str = "found", calls: int = 1) -> list[ModelMessage]:
    """A reply with its calls, and the results in the opposite order."""
    ids = [f"call-{number}-{each}" for each in range(calls)]
    asked = [ModelToolCall("search", {"page": number}, call_id) for call_id in ids]
    return [
        ModelMessage.assistant("", asked),
        *(ModelMessage.tool(call_id, result) for call_id in reversed(ids)),
    ]


def a_loop(turns: int, result: str = "found") -> list[ModelMessage]:
    """An agent at work: instructions, a question, and turns with one call each."""
    worked = [message for number in range(turns) for message in a_turn(number, result)]
    return [ModelMessage.system("Be brief."), ModelMessage.user("Where is Ada?"), *worked]


@st.composite
def transcripts(draw: st.DrawFn) -> list[ModelMessage]:
    """Anything a program may hand in: results late, in any order, without ids, with ids that come again."""
    messages = [ModelMessage.system("Be brief.")] * draw(st.integers(0, 2))
    open_calls: list[str] = []
    text = st.text(max_size=12) | st.sampled_from([LONG, "löng " * 100])
    for _ in range(draw(st.integers(1, 24))):
        kind = draw(st.sampled_from(["user", "reply", "calls", "result", "result", "evidence", "system"]))
        said = draw(text)
        if kind == "calls":
            ids = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3))
            open_calls += ids
            messages.append(ModelMessage.assistant(said, [ModelToolCall("search", {}, i) for i in ids]))
        elif kind == "result":
            known = open_calls or ["nobody asked"]
            messages.append(ModelMessage.tool(draw(st.sampled_from(known)), said))
        elif kind == "evidence":
            messages.append(ModelMessage.evidence(said))
        elif kind == "system":
            messages.append(ModelMessage.system(said))
        else:
            messages.append(ModelMessage.user(said) if kind == "user" else ModelMessage.assistant(said))
    return messages
