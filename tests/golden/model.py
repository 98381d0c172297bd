"""The model of the golden runs: the transcript decides what it says, so any process can go on with any run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from pilotage import IAgentModel, ModelRequest, ModelResponse, ModelStreamEvent
from pilotage.agent import ModelCapability, ModelMessageRole
from pilotage.architectures.plan_and_execute import Plan, PlanStep, StepReport
from pilotage.architectures.router import Route
from pilotage.testing import ScriptedModel, calls, says, turn, when
from tests.golden.outside import Weather


def _speaks(name: str) -> Callable[[ModelRequest], bool]:
    """Whether a request is made by an agent of this name."""

    def speaks(request: ModelRequest) -> bool:
        first = request.messages[0]
        return first.role is ModelMessageRole.SYSTEM and first.text.startswith(f"You are the {name}.")

    return speaks


def _asks(name: str, words: str) -> Callable[[ModelRequest], bool]:
    """Whether a request of this agent holds these words."""
    return lambda request: _speaks(name)(request) and any(words in each.text for each in request.messages)


def _is_summary(request: ModelRequest) -> bool:
    """Whether a request is made by no agent; it offers no tools."""
    return request.tool_calling is None


# Ids of calls are written out: a stored transcript is recognised by them, whatever is added to the script.
_SCRIPT = (
    when("[completed-blocks]", says("Talked.")),
    when("[talking]", says("Let us talk about many things.")),
    when("[torn-stream]", says("Words that were cut off.")),
    when("[completed]", calls("look", what="it", call_id="completed-1"), says("All is well.")),
    when(
        "[approval]",
        turn(
            says("Let me see. ", reasoning="A person decides."),
            calls("look", what="it", call_id="approval-1"),
            calls("ask", what="approval ask", call_id="approval-2"),
        ),
        says("Allowed and done."),
    ),
    when("[answered]", calls("ask", what="answered ask", call_id="answered-1"), says("Done.")),
    when("[modified]", calls("ask", what="modified ask", call_id="modified-1"), says("Done otherwise.")),
    when("[rejected]", calls("ask", what="rejected ask", call_id="rejected-1"), says("Not done.")),
    when("[cancelled]", calls("ask", what="cancelled ask", call_id="cancelled-1")),
    when(
        "[forked]",
        calls("write", what="forked write", call_id="forked-1"),
        calls("ask", what="forked ask", call_id="forked-2"),
        says("Forked."),
    ),
    when(
        "[second turn]",
        calls("ask", what="conversation ask", call_id="conversation-1"),
        says("You are Ada."),
    ),
    when("[first turn]", says("Hello, Ada.")),
    when(
        "[steered]",
        calls("note", what="steered note", call_id="steered-1"),
        calls("ask", what="steered ask", call_id="steered-2"),
        says("As you wish."),
    ),
    when("[deferred]", calls("pick", {"of": "walls"}, call_id="deferred-1"), says("It is picked.")),
    when("[budget]", calls("note", what="budget note", call_id="budget-1"), says("Within the budget.")),
    when("[budget-held]", says("Said within the budget.")),
    when(
        "[torn-model]", calls("write", what="torn-model write", call_id="torn-model-1"), says("Said at last.")
    ),
    when(
        _speaks("teller"),
        turn(says("Your badge is BADGE-77. "), calls("ask", what="redacted ask", call_id="teller-1")),
        says("Show BADGE-77 at the door."),
    ),
    when(_speaks("bounded"), calls("look", what="it", call_id="bounded-1"), says("Never said.")),
    when(
        _speaks("reader"),
        *(calls("page", number=number, call_id=f"reader-{number}") for number in (1, 2, 3, 4)),
        calls("ask", what="condensed ask", call_id="reader-5"),
        says("Read."),
    ),
    when(_speaks("witness"), calls("ask", what="prompts ask", call_id="witness-1"), says("Seen.")),
    when(_speaks("typist"), says("One"), says(output={"one": 1})),
    when(
        _speaks("butler"),
        calls("remember", text="Ada likes tea.", call_id="butler-1"),
        calls("ask", what="memory ask", call_id="butler-2"),
        says("Tea it is."),
    ),
    when("only this one: find the order", says(output=StepReport("order 7"))),
    when(
        "only this one: give it back",
        calls("ask", what="plan ask", call_id="plan-1"),
        says(output=StepReport("paid")),
    ),
    when(
        "Tools for the steps",
        says(output=Plan([PlanStep("look", "find the order"), PlanStep("pay", "give it back", ["look"])])),
    ),
    when(_asks("planner", "All steps are done"), says("Ada has her money.")),
    when(_speaks("research"), says("It rains.")),
    when(_asks("writing", "[editor]"), calls("ask", what="editor ask", call_id="editor-2"), says("Edited.")),
    when(_speaks("writing"), calls("ask", what="supervisor ask", call_id="writing-1"), says("Written.")),
    when(
        _speaks("chief"),
        turn(
            calls("delegate", worker="research", instructions="find out", call_id="chief-1"),
            calls("delegate", worker="writing", instructions="write it up", call_id="chief-2"),
        ),
        says("It rains, and is written."),
    ),
    when(
        lambda request: _speaks("refiner")(request) and request.structured_output is not None,
        says(output={"score": 0.9, "done": True}),
    ),
    when(_speaks("refiner"), says("Draft.")),
    when(_speaks("desk"), says(output=Route("research", 0.9, "a question"))),
    when(_speaks("editor"), calls("ask_colleague", task="[editor] write", call_id="editor-1"), says("Sent.")),
    when(_is_summary, says("The first pages are full of words.")),
)


class GoldenModel(IAgentModel):
    """The script; a process may be held behind the first piece of a reply."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._script = ScriptedModel(_SCRIPT, by_transcript=True)

    @property
    def capability(self) -> ModelCapability:
        return self._script.capability

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return await self._script.complete(request)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        async for event in self._script.stream(request):
            yield event
            await self._weather.at(f"model {request.messages[-1].text}")
