"""Chooses the tool that a command means, by names, descriptions and parameters. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from pilotage.agent.model_request import ModelToolSpec
from pilotage.models.offline.arguments import calls_of
from pilotage.models.offline.grammar import SpokenCommand
from pilotage.models.offline.parameters import Parameter, parameters_of
from pilotage.models.offline.words import (
    ARTICLES,
    AUXILIARIES,
    FILLERS,
    HELPFUL,
    PREPOSITIONS,
    SYNONYMS,
    Verb,
    stem,
    words_of,
)
from pilotage.values import value

# A command that names a tool means it. Else a tool must at least share a verb or a noun of its name with the command:
# words of a description alone are too easily hit by chance.
_NAMED = 100
_NOUN_IN_NAME = 7
_VERB_IN_NAME = 6
_HELPFUL_NAME = 4
_VERB_BEGINS_DESCRIPTION = 4
_IN_PARAMETERS = 2
_IN_DESCRIPTION = 1
ENOUGH = 4

_NO_NOUNS = ARTICLES | AUXILIARIES | FILLERS | frozenset(PREPOSITIONS) | {"and", ","}


@value
class OfferedTool:
    """A tool as the offline model reads it."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    name_words: frozenset[str]
    description_words: tuple[str, ...]

    @property
    def parameter_words(self) -> frozenset[str]:
        """The words of all parameter names."""
        return frozenset(word for parameter in self.parameters for word in parameter.words)

    @property
    def signature(self) -> str:
        """The tool as one would call it: `read_file(path, limit?)`."""
        return f"{self.name}({', '.join(p.name if p.is_required else f'{p.name}?' for p in self.parameters)})"


@value
class Choice:
    """A tool that a command may mean, with its rating and the reasons."""

    tool: OfferedTool
    score: int = 0
    why: tuple[str, ...] = ()

    def with_reason(self, points: int, why: str) -> Choice:
        """Return the same with one more reason for it."""
        return Choice(self.tool, self.score + points, (*self.why, why))


def offered(spec: ModelToolSpec) -> OfferedTool:
    """Return a tool of a request."""
    return _read(spec.name, spec.description or "", json.dumps(spec.parameters.schema, default=dict))


def choose(command: SpokenCommand, tools: Sequence[OfferedTool]) -> Choice | None:
    """Return the best tool; of several with the same rating one that needs no more arguments, then the first."""
    good = [choice for tool in tools if (choice := rated(command, tool)).score >= ENOUGH]
    return max(good, key=lambda choice: (choice.score, -_missing(command, choice.tool)), default=None)


def rated(command: SpokenCommand, tool: OfferedTool) -> Choice:
    """Return the rating of a tool for a command."""
    choice = Choice(tool)
    if command.head.lower() in (tool.name.lower(), tool.name.lower().rpartition(".")[2]):
        return choice.with_reason(_NAMED, "you name it")
    if command.verb is not None:
        choice = _rated_by_verb(command.verb, choice, command.is_question)
    for noun in sorted(_nouns(command)):
        choice = _rated_by_noun(noun, choice)
    return choice


def _rated_by_verb(verb: Verb, choice: Choice, is_question: bool) -> Choice:
    tool, helpful = choice.tool, HELPFUL.get(verb, frozenset())
    if SYNONYMS[verb] & tool.name_words:
        choice = choice.with_reason(_VERB_IN_NAME, f"its name means {verb.value!r}")
    elif SYNONYMS[verb] & set(tool.description_words[:1]) and not is_question:
        choice = choice.with_reason(_VERB_BEGINS_DESCRIPTION, f"it is said to {verb.value}")
    if helpful & tool.name_words:
        choice = choice.with_reason(_HELPFUL_NAME, f"it may help to {verb.value}")
    if helpful & tool.parameter_words:
        choice = choice.with_reason(_IN_PARAMETERS, "its parameters fit")
    return choice


def _rated_by_noun(noun: str, choice: Choice) -> Choice:
    if noun in choice.tool.name_words:
        return choice.with_reason(_NOUN_IN_NAME, f"its name has {noun!r}")
    if noun in choice.tool.parameter_words:
        return choice.with_reason(_IN_PARAMETERS, f"it takes {noun!r}")
    if noun in choice.tool.description_words:
        return choice.with_reason(_IN_DESCRIPTION, f"its description has {noun!r}")
    return choice


def _nouns(command: SpokenCommand) -> set[str]:
    """Return the words that may say what a command is about; without a verb that is known, all of them may."""
    words = [word.plain for word in command.words]
    return {stem(word) for word in words if word and word not in _NO_NOUNS}


def _missing(command: SpokenCommand, tool: OfferedTool) -> int:
    return sum(len(call.missing) for call in calls_of(command, tool.name, tool.parameters))


@lru_cache(maxsize=512)
def _read(name: str, description: str, schema: str) -> OfferedTool:
    return OfferedTool(
        name,
        description,
        parameters_of(json.loads(schema)),
        frozenset(map(stem, words_of(name))),
        tuple(map(stem, words_of(description))),
    )
