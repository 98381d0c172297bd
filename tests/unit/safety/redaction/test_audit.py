"""The audit notices what should not have been emitted."""

from __future__ import annotations

from pilotage.safety.redaction.audit import (
    EmissionAuditor,
    StreamingRedactionAudit,
    StreamingRedactionAuditStatus,
)
from pilotage.safety.redaction.policy import (
    StreamingRedactionMatch,
    StreamingRedactionPolicy,
    StreamingSensitivePattern,
)
from pilotage.safety.redaction.scanner import Piece, Replaced, Resumed

POLICY = StreamingRedactionPolicy(
    [StreamingSensitivePattern("key", r"sk-\w+"), StreamingSensitivePattern("red", "RED+")]
)


def missed_in(*pieces: Piece) -> list[tuple[str, int, int]]:
    auditor = EmissionAuditor(POLICY)
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
