"""The sealers pass the kit, and the kit notices what it is there for."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import replace

import pytest

from pilotage.adapters.sealing.key_file import SealingKey
from pilotage.adapters.sealing.sealer import AesGcmSealer
from pilotage.agent.ports.persistence import SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.testing.conformance.sealing import CONTEXT, SealerConformance
from pilotage.testing.sealer import MemorySealer
from tests.conformance.planted import failing_tests

KEY, OTHER_KEY = b"k" * 32, b"o" * 32


class TestMemorySealer(SealerConformance):
    @pytest.fixture
    def sealer(self) -> IRecordSealer:
        return MemorySealer(KEY)

    @pytest.fixture
    def second_sealer(self) -> IRecordSealer:
        return MemorySealer(KEY)

    @pytest.fixture
    def foreign_sealer(self) -> IRecordSealer:
        return MemorySealer()


class TestAesGcmSealer(SealerConformance):
    @pytest.fixture
    def sealer(self) -> IRecordSealer:
        return AesGcmSealer(SealingKey(KEY))

    @pytest.fixture
    def second_sealer(self) -> IRecordSealer:
        return AesGcmSealer(SealingKey(KEY))

    @pytest.fixture
    def foreign_sealer(self) -> IRecordSealer:
        return AesGcmSealer(SealingKey(OTHER_KEY))


class TestAesGcmSealerAfterARotation(SealerConformance):
    """The second process has a new key, and the old one to open with."""

    @pytest.fixture
    def sealer(self) -> IRecordSealer:
        return AesGcmSealer(SealingKey(KEY))

    @pytest.fixture
    def second_sealer(self) -> IRecordSealer:
        return AesGcmSealer(SealingKey(OTHER_KEY), [SealingKey(KEY)])

    @pytest.fixture
    def foreign_sealer(self) -> IRecordSealer:
        return AesGcmSealer(SealingKey(b"f" * 32))


class BlindToThePlace(MemorySealer):
    """Seals everything for one place."""

    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        return super().seal(CONTEXT, plaintext)

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        return super().open(CONTEXT, sealed)


class BlindToTheAttempt(MemorySealer):
    """Leaves the attempt out of the place."""

    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        return super().seal(replace(context, attempt=1), plaintext)

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        return super().open(replace(context, attempt=1), sealed)


class AlwaysTheSame(MemorySealer):
    """Remembers what it sealed, and gives the same again."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._seen: dict[str, SealedRecord] = {}

    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        return self._seen.setdefault(f"{context} {plaintext}", super().seal(context, plaintext))


class OneKeyStream(MemorySealer):
    """Has a nonce and does not use it."""

    def _combined(self, nonce: bytes, text: bytes) -> bytes:
        return super()._combined(b"n" * len(nonce), text)


class WithoutTag(MemorySealer):
    """Does not look whether the ciphertext was changed."""

    def _tag(self, context: SealContext, body: bytes) -> bytes:
        return b"t" * 32


class NotEncrypted(MemorySealer):
    """Authenticates and does not encrypt."""

    def _combined(self, nonce: bytes, text: bytes) -> bytes:
        return text


class StrictUtf8(MemorySealer):
    """Knows only text that is proper Unicode."""

    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        return super().seal(context, plaintext.encode().decode())


class BlindToSpelling(MemorySealer):
    """Takes any spelling of the bytes."""

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        written = b64encode(b64decode(sealed.ciphertext)).decode()
        return super().open(context, replace(sealed, ciphertext=written))


class BlindToTheKeyId(MemorySealer):
    """Opens what its key opens, whatever it is called."""

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        return super().open(context, replace(sealed, key_id=self.key_id))


class Chatty(MemorySealer):
    """Says in its errors what it found."""

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        try:
            return super().open(context, sealed)
        except RecordSealError as error:
            text = super().open(CONTEXT, sealed) if sealed.key_id == self.key_id else ""
            raise RecordSealError(f"{error}: {text}", key_id=sealed.key_id) from error


class Wordless(MemorySealer):
    """Refuses without a word."""

    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        try:
            return super().open(context, sealed)
        except RecordSealError as error:
            raise RecordSealError from error


BUGS = {
    BlindToThePlace: "test_a_seal_opens_in_no_other_place",
    BlindToTheAttempt: "test_a_seal_opens_in_no_other_place",
    AlwaysTheSame: "test_two_seals_of_one_text_differ",
    OneKeyStream: "test_two_seals_of_one_text_share_no_part_of_it",
    WithoutTag: "test_every_change_of_the_ciphertext_is_refused",
    NotEncrypted: "test_nothing_of_the_text_can_be_read",
    StrictUtf8: "test_a_text_comes_back_unchanged",
    BlindToSpelling: "test_every_change_of_the_ciphertext_is_refused",
    BlindToTheKeyId: "test_another_key_id_is_refused",
    Chatty: "test_no_error_holds_anything_of_the_text",
    Wordless: "test_a_broken_seal_is_refused_with_its_place_and_key",
}


@pytest.mark.parametrize(("bug", "noticed"), BUGS.items(), ids=[bug.__name__ for bug in BUGS])
async def test_the_kit_notices_a_bug(bug: type[MemorySealer], noticed: str) -> None:
    def fixtures() -> Mapping[str, object]:
        sealer = bug(KEY)
        return {"sealer": sealer, "second_sealer": sealer, "foreign_sealer": MemorySealer(OTHER_KEY)}

    assert noticed in await failing_tests(SealerConformance, fixtures)
