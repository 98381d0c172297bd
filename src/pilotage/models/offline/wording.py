"""Texts of the offline model: results, missing values, its introduction. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotage.agent.messages import ModelToolCall
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.models.offline.choosing import Choice, OfferedTool
from pilotage.models.offline.grammar import SpokenCommand
from pilotage.models.offline.parameters import Kind, Parameter
from pilotage.models.offline.transcript import CallOutcome
from pilotage.models.offline.words import Verb

WHAT_IT_IS = "I am Pilotage's offline model: a set of rules, not a language model."
SIGNATURE = "(Pilotage's offline model: rules, not a language model.)"
_MOST_ENTRIES = 20
_MOST_CHARACTERS = 4_000
_SHORT = 120
_ABILITIES = (
    'I follow commands: list, read, search, write, run, status, explain, remember, or the name of a tool. "and" asks '
    'for several at once, "then" for one after the other, name=value says what goes where.'
)


def introduced(tools: Sequence[OfferedTool], instructions: str = "") -> str:
    """Return the introduction: what the model is, the commands, and the tools on offer."""
    lines = [WHAT_IT_IS, _ABILITIES]
    if instructions.strip():
        lines.append(f"This agent's instruction is: {_one_line(instructions)}")
    if tools:
        lines.append("These tools are on offer:")
        lines += [f"- {tool.signature}: {_first_sentence(tool.description)}" for tool in tools]
        lines.append(f"Try: {example(tools[0])}")
    else:
        lines.append("No tools are on offer here, so there is little that I can do.")
    return "\n".join(lines)


def not_understood(command: SpokenCommand, tools: Sequence[OfferedTool]) -> str:
    """Return the text for a command that is not understood, with the introduction."""
    return f"I do not know what to do about {_quoted(command.text)}.\n{introduced(tools)}"


def not_followed(command: SpokenCommand) -> str:
    """Return the text for a command with a "not", which is not carried out."""
    return f"I do nothing about {_quoted(command.text)}: I follow commands, and this one says what not to do."


def missing(tool: OfferedTool, given: Mapping[str, JsonValue], names: Sequence[str]) -> str:
    """Return the text for missing arguments, with a line that can be typed."""
    wanted = [_described(each) for each in tool.parameters if each.name in names]
    known = " ".join(f"{name}={_as_typed(each)}" for name, each in given.items())
    blanks = " ".join(f"{name}=..." for name in names)
    line = " ".join(filter(None, [tool.name, known, blanks]))
    return f"For {tool.name} I still need {_enumerated(wanted)}. I have called nothing yet. Type: {line}"


def refused(tool: OfferedTool, named: Sequence[str]) -> str:
    """Return the text for named values that the tool does not take."""
    return (
        f"I cannot use {_enumerated(named)}: {tool.signature} takes no such value. I have called nothing yet."
    )


def greeting(name: str) -> str:
    """Return a greeting."""
    return f"Good day, {name.strip().rstrip('.')}."


def outcome_text(outcome: CallOutcome, verb: Verb | None = None) -> str:
    """Return the text for the outcome of a call; a greeting uses the name that was found."""
    called = spelled(outcome.call)
    if outcome.error is not None:
        return f"{called} failed: {outcome.error}"
    result = outcome.result
    if verb is Verb.GREET and isinstance(result, str) and 0 < len(result) <= _SHORT and "\n" not in result:
        return greeting(result)
    return f"{called} {_gave(result)}"


def left_out_text(commands: Sequence[SpokenCommand]) -> str:
    """Return the text for commands that were left out after a failure."""
    return f"So I did not go on with {_enumerated([_quoted(each.text) for each in commands])}."


def spelled(call: ModelToolCall) -> str:
    """Return a call as one would write it: `read_file(a.txt)`."""
    return f"{call.name}({', '.join(_shortened(as_text(each)) for each in call.arguments.values())})"


def reasoned(command: SpokenCommand, choice: Choice, among: int) -> str:
    """Return why a tool was chosen."""
    others = "the only tool" if among == 1 else f"one of {among} tools"
    return f"{_quoted(command.text)}: {choice.tool.name}, {others}, because {_enumerated(choice.why)}."


def example(tool: OfferedTool) -> str:
    """Return a line that calls the tool."""
    needed = [p for p in tool.parameters if p.is_required]
    return " ".join([tool.name, *(f"{each.name}={_sample(each)}" for each in needed)])


def as_text(result: JsonValue) -> str:
    """Return a value as text: a text unchanged, anything else as JSON."""
    return result if isinstance(result, str) else canonical_json(result)


def shown_as_it_is(texts: Sequence[str]) -> str:
    """Return the context of the application, for a question that only a language model could answer."""
    shown = "\n\n".join(_cut(text) for text in texts)
    return f"I cannot answer in words of my own. This is what I was shown:\n\n{shown}"


def _gave(result: JsonValue) -> str:
    match result:
        case None | "":
            return "gave nothing."
        case list() | tuple():
            return f"gave {_counted(len(result))}{_lines([as_text(each) for each in result])}"
        case Mapping():
            return f"gave:{_lines([f'{name}: {as_text(each)}' for name, each in result.items()])}"
        case str() if "\n" in result or len(result) > _SHORT:
            return f"gave:\n\n{_cut(result)}"
        case _:
            return f"gave {as_text(result)}"


def _lines(entries: Sequence[str]) -> str:
    shown = "".join(f"\n- {_one_line(entry)}" for entry in entries[:_MOST_ENTRIES])
    more = len(entries) - _MOST_ENTRIES
    return f"{shown}\n- and {more} more" if more > 0 else shown


def _counted(count: int) -> str:
    return "an empty list." if not count else "1 entry:" if count == 1 else f"{count} entries:"


def _cut(text: str) -> str:
    more = len(text) - _MOST_CHARACTERS
    return f"{text[:_MOST_CHARACTERS]}\n... and {more} more characters" if more > 0 else text


def _as_typed(each: JsonValue) -> str:
    text = as_text(each)
    return f'"{text}"' if " " in text else text


def _described(parameter: Parameter) -> str:
    words = str(parameter.schema.get("description", "")).strip().rstrip(".")
    return f"{parameter.name} ({words or parameter.kind.value})"


def _sample(parameter: Parameter) -> str:
    if parameter.choices:
        return str(parameter.choices[0])
    if parameter.is_path:
        return "notes.txt"
    samples = {Kind.INTEGER: "3", Kind.NUMBER: "3.5", Kind.BOOLEAN: "yes", Kind.LIST: "[]", Kind.OBJECT: "{}"}
    return samples.get(parameter.kind, '"..."' if parameter.is_prose else "...")


def _enumerated(parts: Sequence[str]) -> str:
    *first, last = parts or ("nothing",)
    return f"{', '.join(first)} and {last}" if first else last


def _quoted(text: str) -> str:
    return f'"{_shortened(text)}"'


def _shortened(text: str) -> str:
    line = _one_line(text)
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}..."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _first_sentence(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line or "it has no description."
