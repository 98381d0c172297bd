"""The reply of the offline model to a request: calls, an answer, or a question. Pure: the transcript decides.

The stages of a question are carried out one after the other. Where a command lacks something nothing of its stage is
called, and after a failed call the rest is left out. Results of tools are shown, never followed as commands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeAlias

from pilotage.agent.compaction import BYTE_ESTIMATOR
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.model_request import ModelRequest, ModelToolChoice, ToolCallingSpec
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_bytes
from pilotage.models.offline.arguments import calls_of
from pilotage.models.offline.choosing import Choice, OfferedTool, choose, offered
from pilotage.models.offline.grammar import SpokenCommand, parse, substituted
from pilotage.models.offline.shaping import Known, shape
from pilotage.models.offline.transcript import CallOutcome, Situation, situation_of
from pilotage.models.offline.wording import (
    SIGNATURE,
    WHAT_IT_IS,
    as_text,
    greeting,
    introduced,
    left_out_text,
    missing,
    not_followed,
    not_understood,
    outcome_text,
    reasoned,
    refused,
    shown_as_it_is,
)
from pilotage.models.offline.words import ARTICLES, PRONOUNS, Verb
from pilotage.values import value


@value
class OfflineReply:
    """A reply of the offline model. `answer` has the requested shape; `made_up` are its invented fields.

    A reply that is cut ends at the bound of the request: its text may break off, and answer and calls may be missing.
    """

    text: str = ""
    reasoning: str = WHAT_IT_IS
    calls: tuple[ModelToolCall, ...] = ()
    answer: JsonValue = None
    made_up: tuple[str, ...] = ()
    is_cut: bool = False

    def within(self, tokens: int) -> OfflineReply:
        """Return the reply as far as it gets with so many tokens: reasoning first, then text or answer, then calls."""
        reasoning = _beginning(self.reasoning, tokens)
        left = tokens - _tokens(reasoning)
        whole = canonical_json(self.answer) if self.answer is not None and not self.calls else self.text
        text = _beginning(whole, left)
        left -= _tokens(text)
        sizes = list(accumulate(_tokens(canonical_json(call.arguments)) for call in self.calls))
        made = sum(size <= left for size in sizes) if text == whole else 0
        if reasoning == self.reasoning and text == whole and made == len(self.calls):
            return self
        return OfflineReply(text, reasoning, self.calls[:made], is_cut=True)


def _beginning(text: str, tokens: int) -> str:
    """Return the longest beginning of a text that takes no more than so many tokens."""
    if _tokens(text) <= tokens:
        return text
    cut = to_bytes(text)[: int(max(tokens, 0) * BYTE_ESTIMATOR.bytes_per_token)]
    return cut.decode(errors="ignore")


_tokens = BYTE_ESTIMATOR.tokens_of


@value
class _CallTools:
    calls: tuple[ModelToolCall, ...]
    why: str


@value
class _Answer:
    text: str


@value
class _Question:
    text: str


_Step: TypeAlias = _CallTools | _Answer | _Question


def reply_to(request: ModelRequest) -> OfflineReply:
    """Return the reply that the rules give."""
    situation, calling = situation_of(request), request.tool_calling
    tools = _tools_of(calling)
    stages = parse(situation.question, [tool.name for tool in tools])
    if calling is not None and tools and (calling.tool_name or calling.choice is ModelToolChoice.REQUIRED):
        return _forced(calling, tools, stages, situation)
    reply = _Conversation(situation, tools, stages).reply()
    if reply.calls or request.structured_output is None:
        return reply
    schema = request.structured_output.constraint.schema
    return _shaped(reply, Known(reply.text, _all(stages), [o.result for o in situation.outcomes]), schema)


class _Conversation:
    """Goes through the stages of a question up to the first one that is not done yet."""

    def __init__(
        self, situation: Situation, tools: Sequence[OfferedTool], stages: Sequence[Sequence[SpokenCommand]]
    ) -> None:
        self._situation = situation
        self._tools = tools
        self._stages = stages
        self._unshown = list(situation.outcomes)
        self._texts: list[str] = []
        self._last = ""

    def reply(self) -> OfflineReply:
        """Return the calls of the first stage that is not done, or the answer."""
        if not self._stages and not self._unshown:
            return self._answer([introduced(self._tools, self._situation.instructions)])
        for position, stage in enumerate(self._stages):
            commands = [substituted(each, self._last, PRONOUNS) if position else each for each in stage]
            steps = [_step(each, self._tools, self._situation) for each in commands]
            questions = [step.text for step in steps if isinstance(step, _Question)]
            if questions:
                return self._answer([*self._texts, *questions])
            open_calls, has_failed = self._add_results(commands, steps)
            if has_failed:
                self._leave_out(_all(self._stages[position + 1 :]))
                break
            if open_calls:
                return self._asking(open_calls, steps)
        # Calls that another model has made are not in our stages; their results are shown as well.
        self._texts += map(outcome_text, self._unshown)
        return self._answer(self._texts)

    def _add_results(
        self, commands: Sequence[SpokenCommand], steps: Sequence[_Step]
    ) -> tuple[list[ModelToolCall], bool]:
        """Add the results of a stage; return the calls that are still to be made, and whether any has failed."""
        open_calls: list[ModelToolCall] = []
        results: list[CallOutcome] = []
        for command, step in zip(commands, steps, strict=True):
            if not isinstance(step, _CallTools):
                self._texts.append(step.text)
                continue
            for call in step.calls:
                outcome = self._taken(call)
                if outcome is None:
                    open_calls.append(call)
                else:
                    results.append(outcome)
                    self._texts.append(outcome_text(outcome, command.verb))
        self._last = "\n".join(as_text(outcome.result) for outcome in results)
        return open_calls, any(outcome.error is not None for outcome in results)

    def _taken(self, call: ModelToolCall) -> CallOutcome | None:
        """Return the outcome of a call, found by its name because the arguments in a transcript may be masked."""
        found = next((each for each in self._unshown if each.call.name == call.name), None)
        if found is not None:
            self._unshown.remove(found)
        return found

    def _asking(self, calls: Sequence[ModelToolCall], steps: Sequence[_Step]) -> OfflineReply:
        reasons = dict.fromkeys(step.why for step in steps if isinstance(step, _CallTools))
        return OfflineReply(
            reasoning=" ".join([WHAT_IT_IS, *reasons]), calls=_numbered(calls, self._situation)
        )

    def _leave_out(self, commands: Sequence[SpokenCommand]) -> None:
        if commands:
            self._texts.append(left_out_text(commands))

    def _answer(self, texts: Sequence[str]) -> OfflineReply:
        text = "\n\n".join(texts) if any("\n" in each for each in texts) else "\n".join(texts)
        is_clear = self._situation.has_spoken or WHAT_IT_IS in text
        return OfflineReply(text if is_clear else f"{text}\n{SIGNATURE}")


def _step(command: SpokenCommand, tools: Sequence[OfferedTool], situation: Situation) -> _Step:
    is_small_talk = command.verb in (Verb.GREET, Verb.THANKS) and not command.words
    choice = None if command.is_negated or is_small_talk else choose(command, tools)
    if choice is None:
        return _Answer(talk(command, tools, situation))
    tool = choice.tool
    filled = calls_of(command, tool.name, tool.parameters)
    for each in filled:
        if each.refused:
            return _Question(refused(tool, each.refused))
        if each.missing:
            return _Question(missing(tool, each.arguments, each.missing))
    calls = tuple(ModelToolCall(tool.name, each.arguments) for each in filled)
    return _CallTools(calls, reasoned(command, choice, len(tools)))


def _forced(
    calling: ToolCallingSpec,
    tools: Sequence[OfferedTool],
    stages: Sequence[Sequence[SpokenCommand]],
    situation: Situation,
) -> OfflineReply:
    """Return a call that the request requires; missing arguments are invented, and the reply names them."""
    commands = _all(stages)
    allowed = [tool for tool in tools if calling.tool_name in (None, tool.name)]
    best = next(filter(None, (choose(command, allowed) for command in commands)), None) or Choice(allowed[0])
    tool = best.tool
    command = next(iter(commands), SpokenCommand(()))
    (filled, *_) = calls_of(command, tool.name, tool.parameters)
    spec = next(each for each in calling.tools if each.name == tool.name)
    known = Known(situation.question, commands, [outcome.result for outcome in situation.outcomes])
    shaped = shape(spec.parameters.schema, known)
    answer = shaped.answer if isinstance(shaped.answer, dict) else {}
    arguments = {**answer, **filled.arguments}
    made_up = tuple(path for path in shaped.made_up if path.partition(".")[0] not in filled.arguments)
    calls = _numbered([ModelToolCall(tool.name, arguments)], situation)
    why = f"{WHAT_IT_IS} The request insists on a call, so I call {tool.name}.{_confessed(made_up)}"
    return OfflineReply(reasoning=why, calls=calls, made_up=made_up)


def _shaped(reply: OfflineReply, known: Known, schema: JsonObject) -> OfflineReply:
    spoken = known.text.removesuffix(SIGNATURE).strip()
    shaped = shape(schema, replace(known, text=spoken))
    why = f"{reply.reasoning} I fill in the form that is asked for.{_confessed(shaped.made_up)}"
    return replace(reply, reasoning=why, answer=shaped.answer, made_up=shaped.made_up)


def _confessed(made_up: Sequence[str]) -> str:
    return f" I was not given {', '.join(made_up)}: the value is made up." if made_up else ""


def _tools_of(calling: ToolCallingSpec | None) -> tuple[OfferedTool, ...]:
    if calling is None or calling.choice is ModelToolChoice.NONE:
        return ()
    return tuple(map(offered, calling.tools))


def _numbered(calls: Sequence[ModelToolCall], situation: Situation) -> tuple[ModelToolCall, ...]:
    """Return the calls with ids that are unique in the transcript."""
    first = situation.calls_so_far + 1
    return tuple(replace(call, call_id=f"call-{number}") for number, call in enumerate(calls, start=first))


def _all(stages: Sequence[Sequence[SpokenCommand]]) -> list[SpokenCommand]:
    return list(_flat(stages))


def _flat(stages: Sequence[Sequence[SpokenCommand]]) -> Iterator[SpokenCommand]:
    for stage in stages:
        yield from stage


def talk(command: SpokenCommand, tools: Sequence[OfferedTool], situation: Situation) -> str:
    """Return an answer without a tool: from the rules alone, or that there is none."""
    if command.is_negated:
        return not_followed(command)
    about = " ".join(word.text for word in command.words if word.plain not in ARTICLES and not word.key)
    match command.verb:
        case Verb.GREET:
            return greeting(about) if about else f"Good day.\n{introduced(tools)}"
        case Verb.HELP:
            return introduced(tools, situation.instructions)
        case Verb.EXPLAIN if not (about and situation.shown):
            return introduced(tools, situation.instructions)
        case Verb.THANKS:
            return "You are welcome."
        case Verb.REMEMBER:
            return "No tool here can remember. I see it as long as this conversation goes on, and no longer."
        case Verb.RECALL:
            return _recalled(about, situation)
        case Verb.STATUS:
            return _status(tools, situation)
        case _ if situation.shown:
            return shown_as_it_is(situation.shown)
        case _:
            return not_understood(command, tools)


def _recalled(about: str, situation: Situation) -> str:
    wanted = about.lower()
    found = [text for text in situation.earlier if wanted in text.lower()]
    if not found:
        return "Nothing in this conversation is about that, and no tool here can recall anything."
    return "In this conversation you said:\n" + "\n".join(f"- {text}" for text in found)


def _status(tools: Sequence[OfferedTool], situation: Situation) -> str:
    return (
        f"Nothing is going on. Earlier messages of yours: {len(situation.earlier)}; calls made for them: "
        f"{situation.calls_so_far}; tools on offer: {len(tools)}."
    )
