"""Secrets in streamed texts: however a text is cut, what leaves is the whole text without its secrets."""

from __future__ import annotations

from random import Random

import pytest

from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.secret_stream import (
    HandedOutSecrets,
    SecretMatcher,
    SecretSession,
)

FAMILIES = [
    ["abab", "ababab", "babab"],
    ["aaaa", "aaaaa", "aaab"],
    ["abcd", "bcde", "cdefg", "defgh"],
    ["abca", "abcabd", "cabc"],
    ["aabb", "bbaa", "abba", "baab"],
]


def cut(text: str, chance: Random) -> list[str]:
    places = sorted(chance.sample(range(len(text) + 1), chance.randint(0, min(6, len(text)))))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


@pytest.mark.parametrize("secrets", FAMILIES, ids=lambda each: each[0])
def test_the_cut_of_a_text_does_not_matter(secrets: list[str]) -> None:
    matcher, chance = SecretMatcher(secrets), Random(secrets[0])  # noqa: S311 - a repeatable draw
    letters = "".join(sorted(set("".join(secrets)))) + "x"
    for _ in range(1_500):
        text = "".join(chance.choices(letters, k=chance.randint(0, 24)))
        session, told = SecretSession(matcher), list[str]()
        for part in cut(text, chance):
            told += session.push(part)
            assert not any(secret in "".join(told) for secret in secrets)
        told += session.finish()
        assert "".join(told) == matcher.masked(text), text


def test_what_cannot_become_a_secret_leaves_at_once() -> None:
    session = SecretSession(SecretMatcher(["hunter2-canary"]))
    assert session.push("The hunt is") == ("The hunt is",)
    assert session.push(" on: hunt") == (" on: ",)
    assert session.is_holding
    assert session.push("ing") == ("hunting",)
    assert not session.is_holding


def test_a_secret_of_one_run_is_looked_for_in_the_others_of_its_tenant() -> None:
    tenant = HandedOutSecrets()
    before, other = Redactor(secrets=tenant), Redactor(secrets=HandedOutSecrets())
    assert before.is_idle
    Redactor(secrets=tenant).register("hunter2-canary")
    behind = Redactor(secrets=tenant)
    for redactor in (before, behind):
        assert (redactor.is_idle, redactor.revision) == (False, 1)
        assert redactor.text("it is hunter2-canary") == "it is [SECRET]"
    assert other.is_idle
    assert other.text("it is hunter2-canary") == "it is hunter2-canary"
