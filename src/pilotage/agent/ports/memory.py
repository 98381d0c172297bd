"""The memory port: what an agent remembers beyond one run, strictly apart per tenant and user.

`words_of` and `best_first` are the search that stores share. Words are compared as they are, except for case and
spelling variants of characters: no stemming, no stop words, no meaning. A word counts the more the fewer memories have
it. Scripts without blanks between words are compared character by character.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import TypeVar
from unicodedata import normalize

from pilotage.agent.principal import RunContext
from pilotage.checks import reject_blank, reject_naive, reject_not_positive
from pilotage.errors import AgentDefinitionError, AgentMemoryError
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

LONGEST_TEXT = 8_000
"""The most characters of one item. A longer text is a document, and belongs into a store of documents."""

MOST_RECALLED = 100
"""The most items that one query returns."""

MOST_ITEMS = 10_000
"""The most items of a user, unless an adapter is configured otherwise."""


class MemoryKind(StrEnum):
    """A fact holds until it is forgotten; an episode happened once; USER is a fact about the user."""

    FACT = "fact"
    EPISODE = "episode"
    USER = "user"


@value
class MemoryScope:
    """Whose memory it is. Nothing crosses a tenant or a user.

    Without an agent it is the whole memory of a user. With one it is what was remembered for that agent, and nothing
    else: items of other agents, or of no agent, are not in it.
    """

    tenant_id: str
    user_id: str
    agent_type: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, tenant_id=self.tenant_id, user_id=self.user_id, agent_type=self.agent_type)

    @classmethod
    def of(cls, context: RunContext, agent_type: str | None = None) -> MemoryScope:
        """Return the memory of the user that a run acts for.

        Raises:
            AgentDefinitionError: the run acts for no user.
        """
        if context.user_id is None:
            raise AgentDefinitionError(
                f"run {context.run_id!r} has no user, so there is no memory it could use. "
                "Start it for a user: principal=Principal(...)."
            )
        return cls(context.tenant_id, context.user_id, agent_type)


@value
class MemoryItem:
    """One thing remembered, with the trust label of what it was learned from.

    From `expires_at` on it is as good as forgotten: the memory, by its own clock, neither finds nor lists it.
    """

    id: str
    kind: MemoryKind
    text: str
    label: TrustLabel
    metadata: JsonObject = field(default_factory=empty_object)
    created_at: datetime | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, text=self.text)
        reject_naive(self, created_at=self.created_at, expires_at=self.expires_at)
        if len(self.text) > LONGEST_TEXT:
            raise AgentDefinitionError(
                f"MemoryItem.text of {self.id!r} has {len(self.text)} characters, {LONGEST_TEXT} are allowed. "
                "Remember what matters of it, and where the rest is."
            )

    def is_expired(self, now: datetime) -> bool:
        """Return whether the item has expired by a moment."""
        return self.expires_at is not None and self.expires_at <= now


@value
class MemoryUse:
    """Shows the runs of an agent what is remembered of their user.

    Every model call of a run is shown up to `most` items, of together at most `max_characters`: those that fit what
    the run was asked, then the latest facts about the user, then the latest other facts. They are looked up once, when
    the run begins.
    """

    most: int = 10
    max_characters: int = LONGEST_TEXT

    def __post_init__(self) -> None:
        reject_unfit_limit(self, most=self.most)
        reject_not_positive(self, max_characters=self.max_characters)

    def fitting(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the items that fit, the best first: one that does not fit is left out, not cut."""
        shown: list[MemoryItem] = []
        left = self.max_characters
        for item in items:
            if len(item.text) <= left and len(shown) < self.most:
                shown.append(item)
                left -= len(item.text)
        return shown


class IAgentMemory(ABC):
    """Remembers and recalls. Every adapter guarantees that a scope sees only its own items, and none that has expired.

    An expired item counts for nothing: it takes no place in the memory of a user, and its id can be used again.

    How well an item fits a question is the adapter's to say. Those that come with Pilotage compare words: see
    `pilotage.agent.ports.memory`.
    """

    @abstractmethod
    async def remember(self, scope: MemoryScope, item: MemoryItem) -> MemoryItem:
        """Keep an item, durable on return; the same id in the same scope again replaces it, in its place.

        The item comes back with the time it was first kept. Expired items of the user are deleted.

        Raises:
            AgentMemoryError: the item could not be kept; the memory of the user may be full.
        """

    @abstractmethod
    async def recall(
        self, scope: MemoryScope, query: str, *, limit: int = 10, kind: MemoryKind | None = None
    ) -> Sequence[MemoryItem]:
        """Return the items that fit a query, best first; for a blank query the latest.

        Raises:
            AgentMemoryError: the memory could not be searched.
        """

    @abstractmethod
    async def forget(self, scope: MemoryScope, item_id: str | None = None) -> int:
        """Delete one item, or everything of the scope, for good; how many were deleted, expired ones included.

        Raises:
            AgentMemoryError: nothing could be deleted.
        """

    @abstractmethod
    async def export(self, scope: MemoryScope) -> Sequence[MemoryItem]:
        """Everything of the scope, oldest first.

        Raises:
            AgentMemoryError: the memory could not be read.
        """

    async def trim(self, scope: MemoryScope, most: int) -> int:
        """Forget the oldest items of the scope until it has at most this many; how many were forgotten.

        Raises:
            AgentMemoryError: the memory could not be read, or nothing could be deleted.
        """
        items = await self.export(scope)
        return sum([await self.forget(scope, item.id) for item in items[: max(len(items) - most, 0)]])

    async def remember_if_agreed(
        self, scope: MemoryScope, item: MemoryItem, reason: str
    ) -> MemoryItem | None:
        """Keep an item once a person has agreed; None where the person has not, or no person can be asked.

        The memory of a durable run asks. Any other one can ask no person, and stores nothing.

        Raises:
            AgentMemoryError: the item could not be kept; the memory of the user may be full.
        """
        return None


def reject_unfit_limit(owner: object, /, **fields: int) -> None:
    """Refuse a limit of nothing, or of too much to read."""
    reject_not_positive(owner, **fields)
    for name, limit in fields.items():
        if limit > MOST_RECALLED:
            label = owner if isinstance(owner, str) else type(owner).__name__
            raise AgentDefinitionError(f"{label}.{name} is {limit}. Ask for at most {MOST_RECALLED} items.")


def memory_full(scope: MemoryScope, most: int) -> AgentMemoryError:
    """Return the message for a user who has as many items as are allowed."""
    return AgentMemoryError(
        f"the memory of user {scope.user_id!r} has {most} items and is full. Forget some before remembering more."
    )


T = TypeVar("T")

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_LONGEST = 64
"""The characters of a word that are compared; a longer one is a number or an address."""


def words_of(text: str) -> frozenset[str]:
    """Return the words that a text can be found by."""
    return frozenset(word[:_LONGEST] for word in _WORD.findall(normalize("NFKC", text).casefold()))


def best_first(shared: Mapping[T, Collection[str]]) -> list[T]:
    """Return the items that share words with a question, the best first; of equals the later one.

    `shared` says what each of them shares, the earliest first. It must hold all that share anything.
    """
    how_many = Counter(word for words in shared.values() for word in words)
    scores = {each: sum(1 / how_many[word] for word in sorted(words)) for each, words in shared.items()}
    latest_first = list(reversed(scores))
    return sorted(latest_first, key=scores.__getitem__, reverse=True)
