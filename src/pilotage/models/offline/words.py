"""Vocabulary of the offline model: verbs and their synonyms, words without meaning, prepositions. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum


def vocabulary(words: str) -> frozenset[str]:
    """Return the words of a line."""
    return frozenset(words.split())


class Verb(StrEnum):
    """The kind of a command; its words are in `SYNONYMS`."""

    LIST = "list"
    READ = "read"
    SEARCH = "search"
    WRITE = "write"
    RUN = "run"
    STATUS = "status"
    EXPLAIN = "explain"
    REMEMBER = "remember"
    RECALL = "recall"
    DELETE = "delete"
    SEND = "send"
    GREET = "greet"
    HELP = "help"
    THANKS = "thanks"


SYNONYMS: Mapping[Verb, frozenset[str]] = {
    Verb.LIST: vocabulary("list ls dir enumerate"),
    Verb.READ: vocabulary("read cat open show see view display get fetch load print"),
    Verb.SEARCH: vocabulary("search find grep lookup look query seek retrieve"),
    Verb.WRITE: vocabulary("write save create put store edit update append add"),
    Verb.RUN: vocabulary("run execute exec start launch"),
    Verb.STATUS: vocabulary("status check state health inspect"),
    Verb.EXPLAIN: vocabulary("explain describe"),
    Verb.REMEMBER: vocabulary("remember memorise memorize note keep"),
    Verb.RECALL: vocabulary("recall remembered recollect"),
    Verb.DELETE: vocabulary("delete remove rm erase drop"),
    Verb.SEND: vocabulary("send mail email post notify tell"),
    Verb.GREET: vocabulary("greet hello hi hey welcome salute"),
    Verb.HELP: vocabulary("help"),
    Verb.THANKS: vocabulary("thanks thank ok okay great bye goodbye"),
}

HELPFUL: Mapping[Verb, frozenset[str]] = {
    Verb.GREET: vocabulary("nickname name person greeting salutation title"),
    Verb.REMEMBER: vocabulary("memory memo fact"),
    Verb.RECALL: vocabulary("memory memo fact"),
}
"""Names of tools that help with a verb although they do something else."""

SPREADING = frozenset({Verb.LIST, Verb.READ, Verb.STATUS, Verb.DELETE, Verb.GREET})
"""The verbs for which "a and b" means two of the same; with others it may be one thing of two words."""

QUESTION_WORDS = vocabulary("what who where which when whose how why what's who's where's how's")
NEGATIONS = vocabulary("not don't dont never no cannot can't won't without")
FILLERS = vocabulary(
    "please kindly ok okay great so well now just also can could would will you i we want need to let lets let's"
    " me us like"
)
ARTICLES = vocabulary("a an the all some any this these those that my our your every each")
AUXILIARIES = vocabulary("is are was were be do does did has have it's there about tell")
PRONOUNS = vocabulary("it them that this result results")
CALLING = vocabulary("call use invoke")

_LEADING: Mapping[str, frozenset[str]] = {
    "to": vocabulary(
        "to recipient receiver target destination path file filename account address city country place"
    ),
    "in": vocabulary(
        "in path directory dir folder file filename root location city place country where scope"
    ),
    "from": vocabulary("from source sender origin start since path file account"),
    "for": vocabulary("for query pattern term topic key order name user person customer city id subject"),
    "of": vocabulary("of id order name path file user person customer key city subject"),
    "about": vocabulary("about query topic subject key"),
    "with": vocabulary("with content text body message value name card"),
    "as": vocabulary("as path file filename name title format"),
    "at": vocabulary("at path url address time date location place"),
    "on": vocabulary("on date day topic subject path"),
}
PREPOSITIONS: Mapping[str, frozenset[str]] = {
    **_LEADING,
    "into": _LEADING["to"],
    "under": _LEADING["in"],
    "inside": _LEADING["in"],
    "named": _LEADING["as"],
    "called": _LEADING["as"],
}
"""A preposition, and the words in parameter names that it may lead to."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of an identifier: `read_file`, `readFile` and `docs.readFile` all have `read` and `file`."""
    return tuple(part.lower() for part in _PARTS.findall(name))


def stem(word: str) -> str:
    """Return a word without grammatical endings: `files` and `file` are the same."""
    word = word.lower().removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def verb_of(word: str) -> Verb | None:
    """Return the verb that a word means."""
    plain = word.lower()
    return next((verb for verb, words in SYNONYMS.items() if plain in words), None)
