"""Assigns the words of a command to the parameters of a tool. Pure.

Named values go to the parameter of that name; words after a preposition ("in src", "to notes.txt") to the parameter
it leads to; numbers, paths and choices to one of that form; the remaining words to the first required text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.models.offline.grammar import SpokenCommand, Word
from pilotage.models.offline.parameters import Kind, Parameter, is_path
from pilotage.models.offline.words import ARTICLES, PREPOSITIONS, SPREADING, stem, words_of
from pilotage.values import value

_JOINTS = frozenset({"and", ",", "or"})
_GLUE = frozenset({"is", "=", "of"})


@value
class Filled:
    """The arguments that a command gives, the names of missing ones, and the named values that are refused.

    `refused` holds each name=value without a parameter of that name, or with a value that does not fit.
    """

    arguments: JsonObject
    missing: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def calls_of(command: SpokenCommand, tool_name: str, parameters: Sequence[Parameter]) -> tuple[Filled, ...]:
    """Return the calls that a command asks for: one, or one for each thing that it names."""
    words = _without_name(command, tool_name)
    things = _spread(command, words, parameters)
    naming = frozenset(map(stem, words_of(tool_name)))
    return tuple(_filled(each, parameters, naming) for each in things)


def named_in(command: SpokenCommand, parameters: Sequence[Parameter]) -> JsonObject:
    """Return the values that a command gives by name, by a preposition or by their form; other words are ignored."""
    filling = _Filling(list(command.words), list(parameters), frozenset())
    for fill in (filling.take_json, filling.take_named, filling.take_pairs, filling.take_phrases):
        fill()
    filling.take_looks()
    return filling.arguments


def _without_name(command: SpokenCommand, tool_name: str) -> list[Word]:
    """Return the words that may be values: without those of the name of the tool."""
    naming = set(map(stem, words_of(tool_name)))
    words = list(command.words)
    while words and words[0].plain and stem(words[0].plain) in naming:
        words.pop(0)
    values = [words[0]] if words else []
    for before, word in pairwise(words):
        is_noun = bool(word.plain) and stem(word.plain) in naming and before.plain in ARTICLES
        if not is_noun:
            values.append(word)
    return values


def _spread(
    command: SpokenCommand, words: Sequence[Word], parameters: Sequence[Parameter]
) -> list[list[Word]]:
    """Return the words of each call: "a.txt and b.txt" are two where a tool takes one text."""
    takers = [p for p in parameters if p.is_required] or list(parameters[:1])
    may_spread = command.verb is None or command.verb in SPREADING or command.is_question
    if not may_spread or len(takers) != 1 or takers[0].kind is Kind.LIST:
        return [list(words)]
    groups = [list(group) for is_joint, group in groupby(words, _is_joint) if not is_joint]
    are_things = len(groups) > 1 and all(len(_bare(group)) == 1 for group in groups)
    return groups if are_things else [list(words)]


def _is_joint(word: Word) -> bool:
    return word.plain in _JOINTS


def _bare(words: Sequence[Word]) -> list[Word]:
    return [word for word in words if word.plain not in ARTICLES and word.plain not in PREPOSITIONS]


def _trimmed(words: Sequence[Word]) -> list[Word]:
    """Return the words without prepositions at either end."""
    trimmed = list(words)
    while trimmed and trimmed[0].plain and (trimmed[0].plain in ARTICLES or trimmed[0].plain in PREPOSITIONS):
        trimmed.pop(0)
    while trimmed and (trimmed[-1].plain in PREPOSITIONS or _is_joint(trimmed[-1])):
        trimmed.pop()
    return trimmed


def _filled(words: Sequence[Word], parameters: Sequence[Parameter], naming: frozenset[str]) -> Filled:
    filling = _Filling(list(words), list(parameters), naming)
    for fill in (
        filling.take_json,
        filling.take_named,
        filling.take_pairs,
        filling.take_phrases,
        filling.take_looks,
        filling.take_rest,
    ):
        fill()
    missing = tuple(p.name for p in parameters if p.is_required and p.name not in filling.arguments)
    in_order = {p.name: filling.arguments[p.name] for p in parameters if p.name in filling.arguments}
    return Filled(in_order, missing, filling.refused)


class _Filling:
    """The words that are not used yet, the parameters that have no value yet, and the arguments so far."""

    def __init__(self, words: list[Word], parameters: list[Parameter], naming: frozenset[str]) -> None:
        self._words = words
        self._open = parameters
        self._naming = naming
        self.arguments: dict[str, JsonValue] = {}

    @property
    def refused(self) -> tuple[str, ...]:
        """The named values that no parameter took."""
        return tuple(f"{word.key}={word.text}" for word in self._words if word.key is not None)

    def take_json(self) -> None:
        """Take `{"name": "Ada"}`: arguments by name, or the value of an object or a list."""
        for word in [word for word in self._words if word.json is not None]:
            names = {parameter.name for parameter in self._open}
            if isinstance(word.json, dict) and word.json and set(word.json) <= names:
                for name, given in word.json.items():
                    taker = self._named(name)
                    self._give(taker, taker.fitting(given) if taker else None)
                self._words.remove(word)
                continue
            wanted = Kind.OBJECT if isinstance(word.json, dict) else Kind.LIST
            taker = next((p for p in self._open if p.kind is wanted), None)
            if taker is not None and self._give(taker, taker.fitting(word.json)):
                self._words.remove(word)

    def take_named(self) -> None:
        """Take `name=Ada`."""
        for word in [word for word in self._words if word.key is not None]:
            taker = self._named(word.key or "")
            if taker is not None and self._give(taker, taker.accepts(word.text)):
                self._words.remove(word)

    def take_pairs(self) -> None:
        """Take `amount 12.50`, `card: Good day`, and `3 days`."""
        position = 0
        while position < len(self._words) - 1:
            name, following = self._words[position], position + 1
            if self._is_counted(name, self._words[following]):
                del self._words[position : following + 1]
                continue
            taker = self._named(name.plain)
            if self._words[following].plain in _GLUE and following + 1 < len(self._words):
                following += 1
            given = self._words[following]
            is_value = given.plain not in PREPOSITIONS and given.key is None
            if taker and is_value and self._give(taker, taker.accepts(given.text)):
                del self._words[position : following + 1]
            else:
                position += 1

    def _is_counted(self, number: Word, unit: Word) -> bool:
        """Return whether the words were `3 days` where there is a number called days."""
        taker = self._named(unit.plain)
        if taker is None or taker.kind not in (Kind.INTEGER, Kind.NUMBER):
            return False
        return self._give(taker, taker.accepts(number.text))

    def take_phrases(self) -> None:
        """Take `in src`, `to notes.txt`: the words up to the next preposition."""
        for start in reversed([i for i, word in enumerate(self._words) if word.plain in PREPOSITIONS]):
            phrase = self._phrase(start)
            taker = self._led_to_by(self._words[start].plain, phrase)
            meant = self._without_nouns(phrase)
            if taker is not None and self._give(taker, taker.accepts(_text(meant))):
                del self._words[start : start + 1 + len(phrase)]

    def take_looks(self) -> None:
        """Take numbers, paths, addresses and choices."""
        for word in [word for word in self._words if word.key is None and word.json is None]:
            taker = next((p for p in self._required_first() if p.looks_right(word.text)), None)
            if taker is not None and self._give(taker, taker.accepts(word.text)):
                self._words.remove(word)

    def take_rest(self) -> None:
        """Take the remaining words: all into one text, or one each if there are as many as required parameters."""
        rest = _trimmed([word for word in self._words if word.key is None])
        needed = [p for p in self._open if p.is_required and p.kind in (Kind.TEXT, Kind.LIST)]
        words = [word for word in _bare(rest) if not _is_joint(word)]
        if len(needed) > 1 and len(words) == len(needed):
            for parameter, word in zip(needed, words, strict=True):
                self._give(parameter, parameter.accepts(word.text))
            return
        taker = next((p for p in needed if p.is_prose), None) or next(iter(needed), None)
        taker = taker or self._first_text()
        if taker is not None and rest:
            is_list = taker.kind is Kind.LIST
            self._give(taker, taker.entries(_each(rest)) if is_list else taker.accepts(_text(rest)))

    def _give(self, taker: Parameter | None, given: JsonValue) -> bool:
        if taker is None or given is None:
            return False
        self.arguments[taker.name] = given
        self._open.remove(taker)
        return True

    def _first_text(self) -> Parameter | None:
        """Return the parameter for words that none requires; None if the command is understood without them."""
        texts = (p for p in self._open if p.kind in (Kind.TEXT, Kind.LIST) and not p.is_typed)
        return None if self.arguments else next(texts, None)

    def _named(self, name: str) -> Parameter | None:
        wanted = stem(name)
        exact = (p for p in self._open if name and stem(p.name) == wanted)
        return next(exact, None) or next(
            (p for p in self._open if name and p.words == frozenset({wanted})), None
        )

    def _required_first(self) -> Iterator[Parameter]:
        yield from (p for p in self._open if p.is_required)
        yield from (p for p in self._open if not p.is_required)

    def _phrase(self, start: int) -> list[Word]:
        phrase: list[Word] = []
        for word in self._words[start + 1 :]:
            if word.plain in PREPOSITIONS or word.key is not None:
                break
            phrase.append(word)
        return phrase

    def _without_nouns(self, phrase: Sequence[Word]) -> Sequence[Word]:
        """Return A-17 for "of order A-17" where the tool is about orders."""
        names_tool = bool(phrase[0].plain) and stem(phrase[0].plain) in self._naming if phrase else False
        return phrase[1:] if names_tool and len(phrase) > 1 else phrase

    def _led_to_by(self, small_word: str, phrase: Sequence[Word]) -> Parameter | None:
        if not phrase:
            return None
        leads = PREPOSITIONS[small_word]
        fitting = [p for p in self._required_first() if p.words & leads]
        path = len(phrase) == 1 and is_path(phrase[0].text)
        by_looks = next((p for p in fitting if p.is_path is path), None)
        return by_looks or next(iter(fitting), None)


def _text(words: Sequence[Word]) -> str:
    """Return the words as one text; a comma stands close to the word before it."""
    start = 1 if len(words) > 1 and words[0].plain in ARTICLES else 0
    return " ".join(word.text for word in words[start:]).replace(" ,", ",")


def _each(words: Sequence[Word]) -> list[str]:
    """Return the texts of a list: "Ada, Grace and Tim" has three."""
    return [_text(list(group)) for is_joint, group in groupby(words, _is_joint) if not is_joint]
