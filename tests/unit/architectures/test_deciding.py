"""Forced decisions: types, choices, checks, one repair, and nothing that is clamped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from tests.unit.architectures.plain import PlainDependencies

from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_reply import ModelFinishReason
from pilotage.agent.ports.architecture import AgentSession
from pilotage.architectures.deciding import Share, decide
from pilotage.architectures.parts import Candidates
from pilotage.architectures.prompts import as_text, asked, briefing
from pilotage.errors import AgentStructuredOutputError
from pilotage.testing import ScriptedModel, says
from pilotage.testing.script import ScriptedReply


@dataclass(frozen=True)
class Choice:
    color: str
    share: Share
    others: Sequence[str] = ()


COLORS = ["red", "blue"]
RED = says(output=Choice("red", 0.5))


async def decided(*replies: ScriptedReply) -> tuple[Choice, ScriptedModel]:
    model = ScriptedModel(replies)
    session = AgentSession("s", "You choose.", [ModelMessage.user("Which?")])
    choices = {"color": COLORS, "others": COLORS}
    choice = await decide(session, PlainDependencies(model), Choice, "Choose.", choices=choices)
    assert session.turns == len(replies)
    return choice, model


async def test_the_question_stands_behind_all_that_the_agent_knows() -> None:
    choice, model = await decided(RED)
    assert (choice.color, choice.share) == ("red", 0.5)
    (request,) = model.requests
    assert [message.text for message in request.messages] == ["You choose.", "Which?", "Choose."]


async def test_the_schema_holds_bounds_and_choices_for_servers_that_enforce_them() -> None:
    _, model = await decided(RED)
    spec = model.requests[0].structured_output
    assert spec is not None
    assert spec.constraint.schema["properties"] == {
        "color": {"type": "string", "enum": COLORS},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "others": {"type": "array", "items": {"type": "string", "enum": COLORS}, "default": []},
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"color": "green", "share": 0.5}, "color: 'green' is none of 'red', 'blue'."),
        ({"color": "red", "share": 0.5, "others": ["blue", "pink"]}, "others: 'pink' is none of"),
        ({"color": "red", "share": 1.01}, "share: "),
        ({"color": "red", "share": -1}, "share: "),
        ({"color": "red"}, "share: "),
    ],
)
async def test_what_does_not_fit_is_said_once_and_then_an_error(wrong: object, words: str) -> None:
    choice, model = await decided(says(output=wrong), RED)
    assert choice.color == "red"
    assert words in model.requests[1].messages[-1].text
    with pytest.raises(AgentStructuredOutputError, match="no usable Choice, asked twice") as caught:
        await decided(says(output=wrong), says(output=wrong))
    assert any(words in problem for problem in caught.value.problems)


async def test_prose_and_a_cut_answer_are_repaired() -> None:
    cut = says('{"color": "re', finish_reason=ModelFinishReason.LENGTH)
    for reply in (says("red, I think"), cut):
        choice, _ = await decided(reply, RED)
        assert choice.color == "red"
    with pytest.raises(AgentStructuredOutputError, match="cut off by the length limit"):
        await decided(cut, cut)


@pytest.mark.parametrize(
    ("scores", "best"), [([0.2, 0.9, 0.4], 1), ([0.5], 0), ([0.5, 0.5], 0), ([0.0, 0.0, 0.1], 2)]
)
def test_the_session_holds_the_best_candidate(scores: list[float], best: int) -> None:
    session = AgentSession("s", "")
    candidates = Candidates(session)
    for number, score in enumerate(scores):
        candidates.add(f"answer {number}", score)
    assert session.output == f"answer {best}"
    assert len(session.metadata["candidates"]) == len(scores)  # type: ignore[arg-type]


def test_a_best_candidate_that_stopped_short_stops_the_session_short() -> None:
    session = AgentSession("s", "")
    candidates = Candidates(session)
    candidates.add("half", 0.5, "agent_finish_length")
    assert (session.output, session.interrupted) == ("half", True)
    candidates.add("whole", 0.6)
    assert (session.output, session.interrupted, session.interruption_reason) == ("whole", False, None)


def test_a_candidate_without_words_does_not_take_the_place_of_words() -> None:
    session = AgentSession("s", "", output="something")
    Candidates(session).add("", 0.9)
    assert session.output == "something"


def test_words_for_others() -> None:
    session = AgentSession(
        "s", "", [ModelMessage.user("Hi."), ModelMessage.assistant("Hello."), ModelMessage.user("Pay.")]
    )
    assert briefing(session, "Pay.") == (
        "What was said before:\nUser: Hi.\nAssistant: Hello.\n\nThe question now:\nPay."
    )
    assert briefing(AgentSession("s", ""), "Pay.") == "Pay."
    assert asked(session, "Pay.") == session.messages
    assert [as_text(None), as_text("x"), as_text({"b": 1})] == ["", "x", '{"b":1}']
