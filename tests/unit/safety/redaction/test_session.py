"""Sessions: chunks out, an audit at the end, an end that is final."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotage.errors import AgentOutputGuardError
from pilotage.safety.redaction.policy import (
    StreamingGuardFailureMode,
    StreamingRedactionMatch,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
)
from pilotage.safety.redaction.scanner import Piece, Replaced, Resumed
from pilotage.safety.redaction.session import (
    EmissionAuditor,
    StreamingRedactionAudit,
    StreamingRedactionAuditStatus,
    StreamingRedactionResult,
    StreamingRedactionSession,
)

AUDITED = StreamingRedactionPolicy(
    [StreamingSensitivePattern("key", r"sk-\w+"), StreamingSensitivePattern("red", "RED+")]
)


def missed_in(*pieces: Piece) -> list[tuple[str, int, int]]:
    auditor = EmissionAuditor(AUDITED)
    for piece in pieces:
        auditor.watch([piece])
    return [(match.pattern_name, match.start, match.end) for match in auditor.finish()]


def test_a_match_in_emitted_text_is_missed_even_across_chunks() -> None:
    assert missed_in("fine s", "k-", "12", " fine") == [("key", 5, 10)]


def test_what_replaces_a_match_is_opaque() -> None:
    assert missed_in("a ", Replaced("[REDACTED]", "s"), " b") == []
    assert missed_in("sk", Replaced("-", "s"), "1") == []


def test_the_neighbours_are_those_of_the_original() -> None:
    policy = StreamingRedactionPolicy([StreamingSensitivePattern("word", r"\bab\b")])
    for first, last, missed in (("x", "x", 0), ("-", "-", 2), ("x", "-", 1), ("-", "x", 1)):
        auditor = EmissionAuditor(policy)
        auditor.watch(["ab", Replaced("[REDACTED]", first), Resumed(last), "ab"])
        assert len(auditor.finish()) == missed, (first, last)


def test_positions_count_the_replacements() -> None:
    assert missed_in("a ", Replaced("[REDACTED]", "s"), " sk-1") == [("key", 13, 17)]


def test_what_an_empty_replacement_joins_is_seen() -> None:
    assert missed_in("sk", Replaced("", "s"), "-1") == [("key", 0, 4)]


def test_only_the_first_hundred_are_named() -> None:
    assert len(missed_in("sk-1 " * 500)) == 100


def test_the_payloads_hold_numbers_and_places() -> None:
    audit = StreamingRedactionAudit(
        StreamingRedactionAuditStatus.FAILED, 2, 1, (StreamingRedactionMatch("key", 3, 7),), 64, 20, 30
    )
    evidence = {
        "kind": "streaming_redaction_audit",
        "status": "failed",
        "detected_count": 2,
        "redacted_count": 1,
        "missed_count": 1,
        "missed_matches": ({"pattern_name": "key", "start": 3, "end": 7},),
        "buffer_size": 64,
        "emitted_char_count": 20,
        "original_char_count": 30,
    }
    assert audit.to_evidence_payload() == evidence
    assert audit.to_error_payload() == {
        "code": "streaming_redaction_audit_failed",
        "message": "Streaming redaction emitted 1 sensitive match(es).",
        "retryable": False,
        "metadata": evidence,
    }


TOKEN = StreamingSensitivePattern("token", r"TOKEN-\d+")
POLICY = StreamingRedactionPolicy([TOKEN])
# Taking "ab" out of "aabb" leaves "ab" behind: what is emitted matches again.
JOINING = StreamingRedactionPolicy([StreamingSensitivePattern("ab", "ab", replacement="")])


def test_a_secret_cut_into_chunks_never_leaves() -> None:
    session = StreamingRedactionSession(POLICY)
    assert session.push("id TOK").chunks == ("id ",)
    assert session.push("EN-1234").chunks == ("[REDACTED]",)
    assert session.push("5678 end").chunks == (" end",)
    assert session.finish().chunks == ()


def test_a_match_longer_than_the_buffer_does_not_leak() -> None:
    session = StreamingRedactionSession(StreamingRedactionPolicy([TOKEN], buffer_size=6))
    assert [session.push(text).chunks for text in ("TOKEN-", "12345678")] == [(), ("[REDACTED]",)]
    assert session.finish().chunks == ()


def test_an_empty_text_gives_no_chunks() -> None:
    session = StreamingRedactionSession(POLICY)
    assert session.push("") == StreamingRedactionResult(())
    assert session.finish().chunks == ()


def test_text_without_a_candidate_leaves_in_the_same_call() -> None:
    session = StreamingRedactionSession(POLICY)
    assert session.push("hello world").chunks == ("hello world",)
    assert session.held_char_count == 0


def test_what_is_held_leaves_at_the_end() -> None:
    session = StreamingRedactionSession(POLICY)
    assert session.push("a TOKEN").chunks == ("a ",)
    assert session.held_char_count == 5
    assert session.finish().chunks == ("TOKEN",)


def test_chunks_have_the_size_that_was_asked_for() -> None:
    session = StreamingRedactionSession(replace(POLICY, emit_chunk_size=4))
    assert session.push("abcdefghij").chunks == ("abcd", "efgh", "ij")
    assert session.push("TOKEN-1").chunks == ("[RED", "ACTE", "D]")


def test_the_audit_counts() -> None:
    session = StreamingRedactionSession(POLICY)
    for text in ("a TOKEN-1 b TOK", "EN-22 c"):
        session.push(text)
    audit = session.finish().audit
    assert audit is not None
    assert audit.status is StreamingRedactionAuditStatus.PASSED
    assert (audit.detected_count, audit.redacted_count, audit.missed_count) == (2, 2, 0)
    assert (audit.original_char_count, audit.emitted_char_count) == (22, 27)


def test_a_failed_audit_raises() -> None:
    session = StreamingRedactionSession(JOINING)
    session.push("aabb")
    with pytest.raises(AgentOutputGuardError, match=r"emitted 1 sensitive match\(es\)"):
        session.finish()


def test_a_failed_audit_can_be_part_of_the_result() -> None:
    session = StreamingRedactionSession(replace(JOINING, failure_mode=StreamingGuardFailureMode.EMIT_ERROR))
    assert session.push("aabb").chunks == ("ab",)
    result = session.finish()
    assert result.audit is not None
    assert result.audit.status is StreamingRedactionAuditStatus.FAILED
    assert [(m.pattern_name, m.start, m.end) for m in result.audit.missed_matches] == [("ab", 0, 2)]
    assert result.error == result.audit.to_error_payload()


@pytest.mark.parametrize("method", ["push", "finish"])
def test_a_finished_session_takes_nothing_more(method: str) -> None:
    session = StreamingRedactionSession(POLICY)
    session.finish()
    with pytest.raises(AgentOutputGuardError) as caught:
        session.push("x") if method == "push" else session.finish()
    assert str(caught.value) == (
        f"StreamingRedactionSession.{method}: the session is finished. Use a new one for each stream."
    )


def test_a_session_is_finished_even_when_its_audit_fails() -> None:
    session = StreamingRedactionSession(JOINING)
    session.push("aabb")
    with pytest.raises(AgentOutputGuardError):
        session.finish()
    with pytest.raises(AgentOutputGuardError, match="is finished"):
        session.push("more")
