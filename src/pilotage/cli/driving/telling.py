"""Telling what a run does and came to: to a person at a terminal, through a pipe, or to a program."""

from __future__ import annotations

from pilotage.agent.events import AgentEvent, MessageDeltaEvent
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentStatus
from pilotage.cli.screen.screen import Screen
from pilotage.cli.screen.words import Span, Tone, cleaned, line
from pilotage.cli.views.ending import ending_lines
from pilotage.cli.views.hints import Hints
from pilotage.cli.views.json_forms import event_json, result_json
from pilotage.cli.views.narration import Narrator
from pilotage.cli.views.question import open_questions, question_json
from pilotage.cli.views.run_page import output_text
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.answers import Question


class Telling:
    """Tells one run. Text is streamed to terminals, or where `streams` says so; a pipe gets the answer, once."""

    def __init__(
        self,
        screen: Screen,
        hints: Hints,
        run_id: str,
        *,
        as_json: bool = False,
        reasoning: bool = False,
        streams: bool | None = None,
    ) -> None:
        self._screen = screen
        self._hints = hints
        self._run_id = run_id
        self._as_json = as_json
        self._streams = screen.is_terminal if streams is None else streams
        self._narrator = Narrator(run_id, tells_reasoning=reasoning)
        self._message: tuple[str, str] = ("", "")

    def tell(self, event: AgentEvent, cursor: str | None) -> None:
        """Tell an event."""
        if self._as_json:
            self._screen.say_json(event_json(event, cursor))
            return
        if isinstance(event, MessageDeltaEvent):
            if not self._streams:
                return
            if event.attribution.run_id == self._run_id:
                same, said = self._message
                said = said + event.delta if same == event.message_id else event.delta
                self._message = (event.message_id, said)
        for each in self._narrator.told(event):
            if isinstance(each, Span):
                self._screen.stream(each)
            elif each:
                self._screen.tell(each)
            else:
                self._screen.end_line()

    def cancelling(self) -> None:
        """Say that Ctrl-C was heard."""
        if not self._as_json:
            self._screen.tell(line(Span("cancelling; Ctrl-C again leaves at once", Tone.ASKING)))

    def end(
        self, result: RunResult | None, questions: tuple[Question, ...] = (), *, is_kept: bool = True
    ) -> None:
        """Tell what became of the run, and what to do where it waits."""
        if self._as_json:
            self._screen.say_json(_ending_json(result, questions))
            return
        if result is None:
            self._screen.tell(line(Span("cancelled", Tone.ASKING), ": nothing of the run was kept"))
            return
        if result.state.status is AgentStatus.COMPLETED:
            self._say_output(result.output)
        if questions:
            self._screen.tell(*open_questions(questions, self._hints))
        is_asked = bool(questions)
        self._screen.tell(*ending_lines(result, self._hints, is_kept=is_kept, is_asked=is_asked))

    def _say_output(self, output: object) -> None:
        """The answer, unless it was the last thing that was streamed to this terminal."""
        text = output_text(to_json_value(output))
        if output is None or (self._streams and text.strip() == cleaned(self._message[1]).strip()):
            return
        self._screen.say(*(line(each) for each in text.splitlines()))


def _ending_json(result: RunResult | None, questions: tuple[Question, ...]) -> object:
    asked = [question_json(each) for each in questions]
    if result is None:
        return {"kind": "result", "run": None, "questions": asked}
    return {"kind": "result", **result_json(result), "questions": asked}
