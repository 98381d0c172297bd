"""Whatever somebody types, whatever a tool gives back: a reply, and only calls that fit their tools."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.random_tests import examples
from tests.unit.models.offline.shop import CALLING, NAMES

from pilotage.agent.messages import ModelMessage, ModelToolCall
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.tools.bind import bind_agent_tool_invocation
from pilotage.jsonvalue import JsonValue
from pilotage.models.offline.replying import OfflineReply, reply_to
from pilotage.models.offline.words import PREPOSITIONS, SYNONYMS

WORDS = sorted(
    {
        *(word for words in SYNONYMS.values() for word in words),
        *PREPOSITIONS,
        *NAMES,
        *(
            "and",
            "then",
            ",",
            ";",
            ".",
            "\n",
            "it",
            "not",
            "the",
            "a.txt",
            "src/",
            "12.50",
            "3",
            "USD",
            "Ada",
            "'x y'",
        ),
        *(
            '"open',
            "```",
            "{",
            "[[[[",
            '{"name": 1}',
            "[1, NaN]",
            "name=Ada",
            "amount=",
            "limit=x",
            "path:",
            "what",
            "?",
        ),
        *("9" * 5_000, "٣", "€5", "-", "(", "nickname(", ")"),
    }
)
typed = st.one_of(st.text(max_size=80), st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def assert_fits(reply: OfflineReply) -> None:
    assert reply.text.strip() or reply.calls
    for call in reply.calls:
        bind_agent_tool_invocation(CALLING.functions[call.name], call.arguments)


@examples(100)
@given(typed)
def test_every_text_gets_a_reply_whose_calls_fit_their_tools(text: str) -> None:
    request = ModelRequest([ModelMessage.user(text)], tools=CALLING)
    assert_fits(reply_to(request))
    assert reply_to(request) == reply_to(request)


@examples(50)
@given(typed, json_values | st.sampled_from(["[" * 100_000, "{}", "null"]))
def test_every_result_is_told(text: str, result: JsonValue) -> None:
    call = ModelToolCall("read_file", {"path": "a.txt"}, "call-1")
    messages = [
        ModelMessage.user(text),
        ModelMessage.assistant("", [call]),
        ModelMessage.tool("call-1", result),
    ]
    assert_fits(reply_to(ModelRequest(messages, tools=CALLING)))
