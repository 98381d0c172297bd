"""What is special to AES-GCM: several keys, and the format that old records are in."""

from __future__ import annotations

import pytest

from pilotage.adapters.sealing.key_file import SealingKey
from pilotage.adapters.sealing.sealer import AesGcmSealer
from pilotage.agent.ports.persistence import JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.sealing import RecordSealError, SealContext

OLD, NEW = SealingKey(b"o" * 32), SealingKey(b"n" * 32)
CONTEXT = SealContext(RunKey("default", "run-1"), "run/tool:pay#1", JournalStage.AFTER)


def test_after_a_rotation_the_new_key_seals_and_the_old_one_still_opens() -> None:
    sealed = AesGcmSealer(OLD).seal(CONTEXT, "before")
    rotated = AesGcmSealer(NEW, [OLD])
    assert rotated.open(CONTEXT, sealed) == "before"
    assert sealed.key_id == OLD.id
    assert rotated.seal(CONTEXT, "after").key_id == NEW.id


def test_a_retired_key_that_is_not_configured_any_more_is_named_with_the_way_out() -> None:
    sealed = AesGcmSealer(OLD).seal(CONTEXT, "before")
    with pytest.raises(RecordSealError, match="PILOTAGE_SEALING_OLD_KEY_FILES") as refused:
        AesGcmSealer(NEW).open(CONTEXT, sealed)
    assert refused.value.key_id == OLD.id
    assert not refused.value.retryable


def test_a_record_does_not_open_under_the_name_of_another_known_key() -> None:
    both = AesGcmSealer(NEW, [OLD])
    sealed = both.seal(CONTEXT, "text")
    with pytest.raises(RecordSealError, match="does not open"):
        both.open(CONTEXT, SealedRecord(OLD.id, sealed.ciphertext))


def test_a_key_that_is_both_new_and_old_is_one_key() -> None:
    sealer = AesGcmSealer(NEW, [NEW])
    assert sealer.open(CONTEXT, sealer.seal(CONTEXT, "text")) == "text"


def test_what_was_sealed_by_an_earlier_version_opens() -> None:
    """The sample was made once; if this fails, stored records would not open any more."""
    sample = SealedRecord(SAMPLE_KEY_ID, SAMPLE)
    assert AesGcmSealer(OLD).open(CONTEXT, sample) == '{"result":"Grüße"}'


def test_a_sealer_shows_no_key() -> None:
    assert "oooo" not in repr(AesGcmSealer(OLD))


SAMPLE_KEY_ID = "b5e8b70782729a24"
SAMPLE = "n3P2VbaQ8y7C26eLW/uH0juhnPcjXWziL6BOesII0Fv6QkvQrX5rWl1V4b+j6D42"
