"""How well a memory fits a question: by the words they share. Pure.

Words are compared as they are, but for case and spelling variants of characters: there is no stemming, no list of
words to leave out, and no meaning. A word counts the more the fewer memories have it, so that what every memory says
tells nothing. Scripts that put no blanks between words are compared character by character.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TypeVar
from unicodedata import normalize

T = TypeVar("T")

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_LONGEST = 64
"""So much of a word tells it from others; what is longer is a number or an address."""


def words_of(text: str) -> frozenset[str]:
    """The words that a text can be found by."""
    return frozenset(word[:_LONGEST] for word in _WORD.findall(normalize("NFKC", text).casefold()))


def best_first(shared: Mapping[T, Collection[str]]) -> list[T]:
    """Those that share words with a question, the best first; of equals the later one.

    `shared` says what each of them shares, the earliest first. It must hold all that share anything.
    """
    how_many = Counter(word for words in shared.values() for word in words)
    scores = {each: sum(1 / how_many[word] for word in sorted(words)) for each, words in shared.items()}
    latest_first = list(reversed(scores))
    return sorted(latest_first, key=scores.__getitem__, reverse=True)
