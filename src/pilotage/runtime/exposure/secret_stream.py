"""Secret values that were handed out, and the exact search for them in whole and in streamed texts. Pure.

The chunks of a session, joined, are the whole text without its secrets, however the text was cut. What could still
become a secret is held back.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from urllib.parse import quote, quote_plus
from weakref import ref

from pilotage.safety.fields import SECRET_VALUE

SHORTEST_SECRET = 4
"""Shorter secrets are not redacted: they would match innocent text everywhere, and each match would reveal them."""

_MOST_CHARACTERS = 400_000
"""How much is looked for in one tenant; beyond it the oldest secrets are forgotten."""

_SHORTEST_LINE, _FRAME = 16, "-----"
"""Shorter lines of a secret, and those around a key in a file of keys, are not looked for by themselves."""

_ESCAPED_BYTE = re.compile("%[0-9A-F]{2}")


class SecretMatcher:
    """Finds any of several secrets in a text; of two that begin at the same place, the longer one.

    A secret that is part of the mark is not found in a mark: masking twice gives the same as masking once.
    """

    def __init__(self, forms: Iterable[str]) -> None:
        found = set(forms)
        if any(form in SECRET_VALUE for form in found):
            found.add(SECRET_VALUE)
        # No pattern of all forms: compiling one takes a second where a tenant has hundreds of long tokens.
        self._sorted = sorted(found)
        self._first = frozenset(form[0] for form in found)
        self._longest = max(map(len, found))

    def masked(self, text: str) -> str:
        """Return a whole text without the secrets; the same object if it has none."""
        there = self._in(text)
        if not there:
            return text
        by_length = sorted(there, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, by_length))).sub(SECRET_VALUE, text)

    def search(self, text: str, begin: int) -> tuple[int, int] | None:
        """Return where the first secret in a text is, from a place on: its beginning and its end."""
        places = [(at, -len(form)) for form in self._in(text) if (at := text.find(form, begin)) >= 0]
        if not places:
            return None
        at, length = min(places)
        return at, at - length

    def _in(self, text: str) -> list[str]:
        return [form for form in self._sorted if form in text]

    def open_at(self, text: str, begin: int) -> int:
        """Return the first place from which on the rest of a text may become a secret; its length if there is none."""
        first = self._first
        for at in range(max(begin, len(text) - self._longest + 1), len(text)):
            if text[at] in first and self._may_become(text[at:]):
                return at
        return len(text)

    def _may_become(self, rest: str) -> bool:
        at = bisect_left(self._sorted, rest)
        if at < len(self._sorted) and self._sorted[at] == rest:
            # A secret itself: it may be the beginning of a longer one, which is sorted after it.
            at += 1
        return at < len(self._sorted) and self._sorted[at].startswith(rest)


class SecretSession:
    """Masks the secrets of one streamed text; another `matcher` counts for the text that is held too."""

    def __init__(self, matcher: SecretMatcher) -> None:
        self.matcher = matcher
        self._held = ""

    @property
    def is_holding(self) -> bool:
        """Whether a part of the pushed text has not left."""
        return bool(self._held)

    def push(self, text: str) -> Sequence[str]:
        """Add text; return the chunks that may leave now."""
        text = self._held + text
        return self._masked(text, lambda begin: self.matcher.open_at(text, begin))

    def finish(self) -> Sequence[str]:
        """End the text; return the last chunks."""
        text = self._held
        return self._masked(text, lambda _: len(text))

    def _masked(self, text: str, open_at: Callable[[int], int]) -> Sequence[str]:
        """Return the decided part of a text, and hold the rest."""
        chunks: list[str] = []
        at = 0
        while True:
            hold, found = open_at(at), self.matcher.search(text, at)
            end = hold if found is None else min(hold, found[0])
            if plain := text[at:end]:
                chunks.append(plain)
            if found is None or hold <= found[0]:
                break
            chunks.append(SECRET_VALUE)
            at = found[1]
        self._held = text[hold:]
        return ("".join(chunks),) if chunks else ()


class SecretWatcher(ABC):
    """Observer of new secrets: it is notified of each one, and need not ask for each text."""

    @abstractmethod
    def secrets_changed(self) -> None:
        """Take in that there is a new secret."""


class HandedOutSecrets:
    """The secrets that were handed out in one tenant, for all of its runs in this process.

    `revision` grows with every new one.
    """

    def __init__(self) -> None:
        self.matcher: SecretMatcher | None = None
        self.revision = 0
        self._forms: dict[str, frozenset[str]] = {}
        self._watchers: set[ref[SecretWatcher]] = set()

    def notify(self, watcher: SecretWatcher) -> None:
        """Notify a watcher of new secrets for as long as it exists."""
        self._watchers.add(ref(watcher, self._watchers.discard))

    def add(self, secret: str) -> bool:
        """Look for a secret from now on, in the forms that software writes it in, without surrounding blanks.

        Returns False for one that is shorter than `SHORTEST_SECRET`, which is not looked for.
        """
        secret = secret.strip()
        if len(secret) < SHORTEST_SECRET:
            return False
        if secret in self._forms:
            # The one that was handed out last is forgotten last.
            self._forms[secret] = self._forms.pop(secret)
            return True
        self._forms[secret] = _forms(secret)
        self._forget_oldest(secret)
        self.matcher = SecretMatcher({form for forms in self._forms.values() for form in forms})
        self.revision += 1
        for each in tuple(self._watchers):
            if (watcher := each()) is not None:
                watcher.secrets_changed()
        return True

    def _forget_oldest(self, newest: str) -> None:
        length = sum(map(len, self._forms))
        for secret in list(self._forms):
            if length <= _MOST_CHARACTERS or secret == newest:
                return
            length -= len(secret)
            del self._forms[secret]


def _forms(secret: str) -> frozenset[str]:
    """Return the forms that software makes of a secret by itself, and those of its lines.

    Tools and logs take a text of several lines apart, such as a key file.
    """
    lines = map(str.strip, secret.splitlines())
    texts = [secret, *(each for each in lines if len(each) >= _SHORTEST_LINE and not each.startswith(_FRAME))]
    return frozenset(form for text in texts for form in (*_escaped(text), *_encoded(text)))


def _escaped(text: str) -> Iterator[str]:
    """Yield a text as it is, in JSON, also inside of JSON, in addresses, pages and commands, and as Python shows it."""
    yield from (text, text.replace("'", "'\"'\"'"))
    for keeps in (True, False):
        in_json = json.dumps(text, ensure_ascii=keeps)[1:-1]
        yield from (in_json, json.dumps(in_json, ensure_ascii=keeps)[1:-1])
    for in_address in (quote(text), quote(text, safe=""), quote_plus(text)):
        yield from (in_address, _ESCAPED_BYTE.sub(lambda found: found[0].lower(), in_address))
    yield from (escape(text), escape(text, quote=False), repr(text)[1:-1], repr(text.encode())[2:-1])


def _encoded(text: str) -> Iterator[str]:
    """Yield a text in hexadecimal digits and in base64, which also depends on the bytes before it.

    Of base64 only the characters that no byte around the text has a part in.
    """
    data = text.encode()
    yield from (data.hex(), data.hex().upper())
    for before in range(3):
        whole = slice((8 * before + 5) // 6, 8 * (before + len(data)) // 6)
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(before) + data).decode()[whole]
