"""Questions of runs at the terminal: show them, and read answers until one can be given."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from pilotage.agent.recovery_request import ACTIONS, AgentRecoveryRequest, OpenAction, RecoveryDecision
from pilotage.agent.signals import ApprovalDecision
from pilotage.cli.question_view import open_action_lines, question_lines
from pilotage.cli.screen import Screen
from pilotage.cli.text import TextSpan, Tone, line
from pilotage.jsonvalue import JsonObject, JsonValue, parsed_input
from pilotage.runtime.open_questions import Question
from pilotage.values import value


@value
class PromptAnswer:
    """The decision of a person, with its details."""

    decision: ApprovalDecision | RecoveryDecision
    details: JsonObject


class Prompt:
    """Shows questions and reads answers, until one is valid."""

    def __init__(self, screen: Screen, lines: InputLines) -> None:
        self._screen = screen
        self._lines = lines

    async def ask(self, question: Question) -> PromptAnswer | None:
        """Return the answer to a question; None if the person leaves it open."""
        self._screen.message(*question_lines(question))
        choices = [each.value for each in question.allowed_decisions]
        while True:
            typed = await self._read(f"{' / '.join(choices)} (Ctrl-D: later) > ")
            if typed is None:
                return None
            chosen = chosen_in(typed, choices)
            if chosen is None:
                self._screen.message(line(TextSpan(f"write one of: {', '.join(choices)}", Tone.BAD)))
                continue
            details = await self._details(chosen)
            if details is None:
                continue
            if chosen == RecoveryDecision.RETRY.value and isinstance(question, AgentRecoveryRequest):
                inside = await self._inside(question)
                if inside is None:
                    return None
                details = {**details, ACTIONS: inside} if inside else details
            return PromptAnswer(_decision(question, chosen), details)

    async def _inside(self, question: AgentRecoveryRequest) -> JsonObject | None:
        """Return the answers to open actions inside of a retried one; None if the person leaves them open."""
        answers: dict[str, JsonValue] = {}
        done: list[str] = []
        for action in question.to_decide:
            if any(action.action_id.startswith(f"{outer}/") for outer in done):
                continue
            self._screen.message(*open_action_lines(action))
            answer = await self._answer_to(action)
            if answer is None:
                return None
            answers[action.action_id] = answer
            if answer["decision"] == RecoveryDecision.DONE.value:
                done.append(action.action_id)
            elif answer["decision"] != RecoveryDecision.RETRY.value:
                break
        return answers

    async def _answer_to(self, action: OpenAction) -> JsonObject | None:
        choices = [each.value for each in action.allowed_decisions]
        while True:
            typed = await self._read(f"{action.name}: {' / '.join(choices)} (Ctrl-D: later) > ")
            if typed is None:
                return None
            chosen = chosen_in(typed, choices)
            details = None if chosen is None else await self._details(chosen)
            if chosen is not None and details is not None:
                return {"decision": chosen, **details}
            self._screen.message(line(TextSpan(f"write one of: {', '.join(choices)}", Tone.BAD)))

    async def text(self, words: str) -> str | None:
        """Return the next line; None when the input has ended (Ctrl-D)."""
        return await self._read(words, is_typed_ahead=True)

    def refuse(self, reason: str) -> None:
        """Show why an answer was not accepted."""
        self._screen.message(line(TextSpan(reason, Tone.BAD)))

    async def _details(self, chosen: str) -> JsonObject | None:
        """Return the details of a decision; None if they are missing, and everything is asked again."""
        match chosen:
            case "modify":
                return await self._json(
                    "modified_payload", "all arguments, as JSON; what is masked above, in full > "
                )
            case "done":
                return await self._json("result", "the result, as JSON > ")
            case "reject" | "fail":
                comment = await self._read("why (Enter: no comment) > ")
                return {"comment": comment} if comment else {}
            case _:
                return {}

    async def _json(self, name: str, words: str) -> JsonObject | None:
        typed = await self._read(words)
        if not typed:
            return None
        try:
            return {name: parsed_input(typed)}
        except ValueError as error:
            self.refuse(f"that is no JSON: {error}")
            return None

    async def _read(self, words: str, *, is_typed_ahead: bool = False) -> str | None:
        if not is_typed_ahead:
            self._lines.discard()  # a line that was typed before the question was shown is no answer to it
        if words:
            self._screen.ask(TextSpan(words, Tone.ASKING))
        try:
            typed = await self._lines.next()
        except asyncio.CancelledError:  # Ctrl-C
            self._screen.end_line()
            raise
        self._screen.input_ended(with_enter=typed is not None)
        return typed


def prompt_for(screen: Screen, *, as_json: bool) -> Prompt | None:
    """Return a prompt if a person reads the screen and types; None for pipes and programs."""
    if as_json or not screen.is_terminal or not sys.stdin.isatty():
        return None
    return Prompt(screen, InputLines())


_APPROVE, _REJECT = ApprovalDecision.APPROVE.value, ApprovalDecision.REJECT.value
_YES_OR_NO = {"y": _APPROVE, "yes": _APPROVE, "n": _REJECT, "no": _REJECT}


def chosen_in(typed: str, choices: Sequence[str]) -> str | None:
    """Return the choice that was typed, whole or its beginning; None if it is none or ambiguous.

    Yes and no are the approval and the rejection.
    """
    wanted = typed.strip().lower()
    wanted = _YES_OR_NO.get(wanted, wanted)
    if not wanted:
        return None
    found = [each for each in choices if each == wanted] or [
        each for each in choices if each.startswith(wanted)
    ]
    return found[0] if len(found) == 1 else None


def _decision(question: Question, chosen: str) -> ApprovalDecision | RecoveryDecision:
    return next(each for each in question.allowed_decisions if each.value == chosen)


class InputLines:
    """Lines of standard input. A terminal does the editing, and gives a line when Enter is hit."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdin
        self._rest = b""

    async def next(self) -> str | None:
        """Return the next line without its end; None when the input has ended (Ctrl-D)."""
        while b"\n" not in self._rest:
            piece = await self._piece()
            if not piece:
                last, self._rest = self._rest, b""
                return last.decode(errors="replace").strip() or None
            self._rest += piece
        taken, _, self._rest = self._rest.partition(b"\n")
        return taken.decode(errors="replace").strip()

    def discard(self) -> None:
        """Discard lines that were typed and not read yet."""
        self._rest = b""
        if self._stream.isatty():
            import termios  # noqa: PLC0415 - terminals of POSIX only

            termios.tcflush(self._stream.fileno(), termios.TCIFLUSH)

    async def _piece(self) -> bytes:
        loop, descriptor = asyncio.get_running_loop(), self._stream.fileno()
        ready = asyncio.Event()
        try:
            loop.add_reader(descriptor, ready.set)
        except PermissionError:  # a file cannot be watched, and never blocks
            return os.read(descriptor, 4096)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(descriptor)
        return os.read(descriptor, 4096)
