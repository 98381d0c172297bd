"""Patterns and policies redact whole texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.safety.redaction.policy import (
    StreamingGuardFailureMode,
    StreamingRedactionMatch,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
)

KEY = StreamingSensitivePattern("key", r"sk-\w+", metadata={"severity": "high"})
MAIL = StreamingSensitivePattern("mail", r"\b\w{1,20}@\w{1,20}\.\w{2,}", replacement="<mail>")


def test_a_pattern_redacts_its_own_matches() -> None:
    assert KEY.redact("a sk-1 b sk-2 c@d.ef") == ("a [REDACTED] b [REDACTED] c@d.ef", 2)
    assert KEY.redact("nothing") == ("nothing", 0)


def test_a_replacement_is_literal() -> None:
    pattern = StreamingSensitivePattern("x", "(a)b", replacement=r"\1\g<0>")
    assert pattern.redact("ab") == (r"\1\g<0>", 1)


def test_a_replacement_may_be_empty() -> None:
    assert StreamingSensitivePattern("x", "ab", replacement="").redact("xaby") == ("xy", 1)


def test_a_match_says_where_but_not_what() -> None:
    (match,) = KEY.find_matches("a sk-1")
    assert match == StreamingRedactionMatch("key", 2, 6, {"severity": "high"})
    assert match.to_payload() == {
        "pattern_name": "key",
        "start": 2,
        "end": 6,
        "metadata": {"severity": "high"},
    }
    assert "metadata" not in StreamingRedactionMatch("key", 2, 6).to_payload()


def test_a_policy_takes_the_leftmost_match_and_of_two_the_pattern_listed_first() -> None:
    text = "sk-1@a.de and x@sk-2.de"
    assert StreamingRedactionPolicy([KEY, MAIL]).redact(text) == ("[REDACTED]@a.de and x@[REDACTED].de", 2)
    shorter = StreamingSensitivePattern("shorter", "sk", replacement="!")
    policy = StreamingRedactionPolicy([shorter, KEY])
    assert policy.redact("sk-1") == ("!-1", 1)
    assert [match.pattern_name for match in policy.find_matches("sk-1 sk-2")] == ["shorter", "shorter"]


@pytest.mark.parametrize(
    ("pattern", "limit", "hold"),
    [("abc", None, 2), ("a.*?b", 40, 40), ("a.{0,9}b", 40, 10), ("a.{0,9}b", 5, 5)],
)
def test_a_pattern_knows_how_much_it_may_hold_back(pattern: str, limit: int | None, hold: int) -> None:
    assert StreamingSensitivePattern("x", pattern, max_candidate_length=limit).longest_hold == hold


def test_a_policy_is_a_value() -> None:
    policy = StreamingRedactionPolicy([KEY])
    assert policy == StreamingRedactionPolicy(
        (StreamingSensitivePattern("key", r"sk-\w+", metadata=KEY.metadata),)
    )
    assert hash(policy) == hash(StreamingRedactionPolicy((KEY,)))
    assert (policy.buffer_size, policy.emit_chunk_size) == (64, None)
    assert policy.failure_mode is StreamingGuardFailureMode.RAISE
    assert replace(policy, buffer_size=128).redact("sk-1") == ("[REDACTED]", 1)


def test_a_hostile_text_takes_linear_time() -> None:
    """A backtracking matcher would need longer than the age of the universe."""
    nested = StreamingSensitivePattern("nested", "(?:a+)+b", max_candidate_length=64)
    assert nested.redact("a" * 50_000 + "c") == ("[REDACTED]c", 1)
