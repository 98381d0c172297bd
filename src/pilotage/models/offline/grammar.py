"""Parses what a person types into commands, stage by stage. Pure.

    text      = stage { "then" stage }
    stage     = command { ("and" | "," | ";" | line break) command }
    command   = [verb] { word | "quoted text" | name=value | JSON | word: rest of the line }

A comma or an "and" begins another command only where a verb or the name of a tool follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from pilotage.jsonvalue import JsonValue
from pilotage.models.offline.words import (
    ARTICLES,
    AUXILIARIES,
    CALLING,
    FILLERS,
    NEGATIONS,
    QUESTION_WORDS,
    Verb,
    verb_of,
)
from pilotage.values import value

_TOKEN = re.compile(
    r"""
      ```[a-z]*\n?(?P<fence>.*?)```
    | (?P<key>[A-Za-z_][\w.-]*)=(?:"(?P<dvalue>[^"]*)"|'(?P<svalue>[^']*)'|(?P<value>[^\s,;()]+))
    | "(?P<double>[^"]*)" | “(?P<curly>[^”]*)” | `(?P<tick>[^`]*)`
    | (?<![\w])'(?P<single>[^']*)'(?![\w])
    | (?P<cut>[;\n])
    | (?P<comma>,)(?=\s|$)
    | (?P<word>[^\s,;]+(?:,[^\s,;]+)*)
    """,
    re.VERBOSE | re.DOTALL,
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)
_BREAKS = frozenset({"and", ",", ";", "."})


@value
class Word:
    """A token of a command. `key` is set for name=value; `is_quoted` for text that is not interpreted."""

    text: str
    is_quoted: bool = False
    key: str | None = None
    json: JsonValue = None

    @property
    def plain(self) -> str:
        """The word as the vocabulary spells it; empty for text that is not interpreted."""
        return "" if self.is_quoted or self.key or self.json is not None else self.text.lower()


@value
class SpokenCommand:
    """One command. `words` are those after the verb; `head` is the word that was the verb."""

    words: tuple[Word, ...]
    verb: Verb | None = None
    head: str = ""
    is_question: bool = False
    is_negated: bool = False

    @property
    def text(self) -> str:
        """The command as it was typed, roughly."""
        return " ".join(filter(None, [self.head, *(_spelled(word) for word in self.words)]))


def parse(text: str, names: Collection[str] = ()) -> tuple[tuple[SpokenCommand, ...], ...]:
    """Return the stages of what was typed, each with its commands; `names` are those of the tools on offer."""
    words = list(_words(_BULLET.sub("", _without_call_form(text, names))))
    known = {name.lower() for name in names}
    stages: list[list[SpokenCommand]] = [[]]
    for piece, begins_stage in _pieces(words, known):
        if begins_stage and stages[-1]:
            stages.append([])
        command = _command(piece, known)
        if command is not None:
            stages[-1].append(command)
    return tuple(tuple(stage) for stage in _without_assent(stages) if stage)


def substituted(command: SpokenCommand, result: str, pronouns: Collection[str]) -> SpokenCommand:
    """Return the command with an earlier result in the place of "it"."""
    return replace(
        command,
        words=tuple(Word(result, is_quoted=True) if w.plain in pronouns else w for w in command.words),
    )


def _without_assent(stages: Sequence[Sequence[SpokenCommand]]) -> list[list[SpokenCommand]]:
    """Return the pieces without an "ok" or a "thanks", unless there is nothing else."""
    asking = [[each for each in stage if each.verb is not Verb.THANKS] for stage in stages]
    return asking if any(asking) else [list(stage) for stage in stages]


def _without_call_form(text: str, names: Collection[str]) -> str:
    """Return `nickname name="Ada"` for `nickname(name="Ada")`."""
    for name in names:
        form = re.compile(rf"(?<![\w.])({re.escape(name)})\(([^()]*)\)", re.IGNORECASE)
        text = form.sub(r"\1 \2", text)
    return text


def _words(text: str) -> Iterator[Word]:
    position = 0
    while (found := _TOKEN.search(text, position)) is not None:
        start, position = found.start(), found.end()
        if text[start] in "{[" and (literal := _json_at(text, start)) is not None:
            end, parsed = literal
            position = end
            yield Word(text[start:end], json=parsed)
            continue
        word = _word(found)
        rest_of_line = _text_after_colon(text, position) if word.plain.endswith(":") else ""
        if rest_of_line:
            position += len(rest_of_line)
            yield replace(word, text=word.text[:-1])
            yield Word(rest_of_line.strip().strip("\"'`"), is_quoted=True)
        else:
            yield from _without_punctuation(word)


def _text_after_colon(text: str, position: int) -> str:
    """Return the text after a colon: the rest of its line or, if it ends its line, all that follows."""
    line, _, _ = text[position:].partition("\n")
    announced = line if line.strip() else text[position:]
    return announced if announced.strip() else ""


def _word(found: re.Match[str]) -> Word:
    parts = found.groupdict()
    if parts["key"]:
        text = next(parts[n] for n in ("dvalue", "svalue", "value") if parts[n] is not None)
        return Word(text, key=parts["key"])
    for quoted in ("fence", "double", "curly", "tick", "single"):
        if parts[quoted] is not None:
            return Word(parts[quoted], is_quoted=True)
    return Word(parts["cut"] or parts["comma"] or parts["word"])


def _json_at(text: str, start: int) -> tuple[int, JsonValue] | None:
    parsed: JsonValue
    try:
        parsed, end = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return end, parsed


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")


def _without_punctuation(word: Word) -> Iterator[Word]:
    """Yield the word without punctuation at its end, and a break for a full stop."""
    if not word.plain or word.text in (",", ";", "\n"):
        yield Word(";") if word.text == "\n" else word
        return
    text = word.text.rstrip("?!.:")
    ends = text != word.text and not word.text.endswith(":")
    if text:
        yield replace(word, text=text)
    elif word.text.strip("?!:"):
        yield word
        return
    if ends:
        yield Word(".")


def _pieces(words: Sequence[Word], names: Collection[str]) -> Iterator[tuple[list[Word], bool]]:
    """Yield the words of each command, and whether it has to wait for those before it."""
    piece: list[Word] = []
    waits = False
    for position, word in enumerate(words):
        if word.plain == "then":
            yield piece, waits
            piece, waits = [], True
        elif word.plain == ";" or (word.plain in _BREAKS and _begins_command(words, position + 1, names)):
            yield piece, waits
            piece, waits = [], False
        elif word.plain != ".":
            piece.append(word)
    yield piece, waits


def _begins_command(words: Sequence[Word], position: int, names: Collection[str]) -> bool:
    rest = words[position:]
    for word in rest:
        if word.plain in FILLERS or word.plain in _BREAKS:
            continue
        return bool(word.plain) and (
            word.plain == "then"
            or word.plain in names
            or word.plain in CALLING
            or verb_of(word.plain) is not None
        )
    return False


def _command(words: Sequence[Word], names: Collection[str]) -> SpokenCommand | None:
    is_negated = _is_negated(words, names)
    words = _to_the_point(words, names)
    if not words:
        return None
    head, rest = words[0], words[1:]
    if head.plain in names:
        verb, is_question = verb_of(head.plain), False
    elif head.plain in QUESTION_WORDS or head.plain == "tell":
        rest, is_question = _after(rest, AUXILIARIES | ARTICLES | FILLERS), True
        verb = Verb.SEARCH if rest else Verb.HELP
    else:
        verb, is_question = verb_of(head.plain), False
        if verb is None:
            return SpokenCommand(tuple(words), None, is_negated=is_negated)
        rest = _after(rest, {"up"}) if head.plain == "look" else rest
    return SpokenCommand(tuple(rest), verb, head.text, is_question, is_negated)


def _is_negated(words: Sequence[Word], names: Collection[str]) -> bool:
    """Return whether a negation comes before the verb: not so in "remember that I have no car"."""
    for word in words:
        if word.plain in NEGATIONS:
            return True
        if word.plain in names or verb_of(word.plain) is not None:
            return False
    return False


def _to_the_point(words: Sequence[Word], names: Collection[str]) -> Sequence[Word]:
    """Return the words without polite words, breaks at the end, and "call the tool"."""
    while words and words[-1].plain in (_BREAKS | {"please"}):
        words = words[:-1]
    words = _after(words, (FILLERS | _BREAKS) - set(names)) or words
    if len(words) > 1 and words[0].plain in CALLING and words[0].plain not in names:
        return _after(words[1:], {"the", "tool"})
    return words


def _after(words: Sequence[Word], skipped: Collection[str]) -> Sequence[Word]:
    start = 0
    while start < len(words) and words[start].plain in skipped:
        start += 1
    return words[start:]


def _spelled(word: Word) -> str:
    return f"{word.key}={word.text}" if word.key else word.text
