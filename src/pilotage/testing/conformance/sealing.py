"""The promises of the sealing port."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pilotage.agent.ports.persistence import JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.testing.conformance.kit import Kit

CONTEXT = SealContext(RunKey("default", "run-1"), "run/tool:pay#1", JournalStage.AFTER)
PLAINTEXT = '{"result":"the quick brown fox"}'

TEXTS = {
    "nothing": "",
    "one character": "x",
    "nul": "a\u0000b",
    "half of a pair": "\ud83d",
    "a pair": "🚢",
    "two spellings of one letter": "é e\u0301",
    "a block less one": "x" * 31,
    "a block": "x" * 32,
    "a block and one": "x" * 33,
    "every character": "".join(map(chr, range(sys.maxunicode + 1))),
    "a megabyte": "0123456789abcdef" * 65_536,
}
"""Texts that ciphers and encodings like to get wrong."""

OTHER_PLACES = {
    "tenant": replace(CONTEXT, run=RunKey("elsewhere", "run-1")),
    "run": replace(CONTEXT, run=RunKey("default", "run-2")),
    "action": replace(CONTEXT, action_id="run/tool:pay#2"),
    "stage": replace(CONTEXT, stage=JournalStage.BEFORE),
    "attempt": replace(CONTEXT, attempt=2),
}


class SealerConformance(Kit):
    """Conformance tests of every sealer.

    Fixtures to give: `sealer`, and `foreign_sealer` with another key. Give `second_sealer` too where a key can be
    had twice: another instance with the key of `sealer`, as a second process has it.
    """

    @pytest.fixture
    def second_sealer(self, sealer: IRecordSealer) -> IRecordSealer:
        return sealer

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
    async def test_a_text_comes_back_unchanged(
        self, sealer: IRecordSealer, second_sealer: IRecordSealer, text: str
    ) -> None:
        opened = second_sealer.open(CONTEXT, sealer.seal(CONTEXT, text))
        # Without an assert on the texts themselves: a megabyte is no help in a report.
        assert (len(opened), opened == text) == (len(text), True)

    async def test_the_keys_of_records_follow_from_the_key(
        self, sealer: IRecordSealer, second_sealer: IRecordSealer, foreign_sealer: IRecordSealer
    ) -> None:
        """A sealer may give none; the first of them is that of its current key."""
        keys, foreign = sealer.record_keys(), foreign_sealer.record_keys()
        assert keys.items() <= second_sealer.record_keys().items()
        assert list(keys)[:1] in ([], [sealer.seal(CONTEXT, PLAINTEXT).key_id])
        assert {*keys, *keys.values()}.isdisjoint({*foreign, *foreign.values()})

    async def test_two_seals_of_one_text_differ(self, sealer: IRecordSealer) -> None:
        seals = {sealer.seal(CONTEXT, PLAINTEXT).ciphertext for _ in range(100)}
        assert len(seals) == 100

    async def test_two_seals_of_one_text_share_no_part_of_it(self, sealer: IRecordSealer) -> None:
        """A nonce that is used again would show where two texts are equal."""
        one, two = (sealer.seal(CONTEXT, "x" * 3_000).ciphertext for _ in range(2))
        pieces = {one[start : start + 16] for start in range(0, len(one) - 16, 4)}
        assert [piece for piece in pieces if piece in two] == []

    async def test_nothing_of_the_text_can_be_read(self, sealer: IRecordSealer) -> None:
        sealed = sealer.seal(CONTEXT, PLAINTEXT)
        readable = [sealed.key_id, sealed.ciphertext, *_decoded(sealed.ciphertext)]
        assert [text for text in readable if "quick" in text] == []

    async def test_a_seal_is_text_that_every_store_takes(self, sealer: IRecordSealer) -> None:
        sealed = sealer.seal(CONTEXT, TEXTS["half of a pair"])
        assert sealed.key_id.strip()
        assert (sealed.key_id + sealed.ciphertext).isascii()
        assert (sealed.key_id + sealed.ciphertext).isprintable()

    async def test_every_change_of_the_ciphertext_is_refused(self, sealer: IRecordSealer) -> None:
        sealed = sealer.seal(CONTEXT, PLAINTEXT)
        opened = [
            each for each in _changed(sealed.ciphertext) if _opens(sealer, replace(sealed, ciphertext=each))
        ]
        assert opened == []

    async def test_what_is_no_ciphertext_is_refused(self, sealer: IRecordSealer) -> None:
        key_id = sealer.seal(CONTEXT, PLAINTEXT).key_id
        strange = ["", "=", "AAAA", "not a ciphertext", "☃", "\ud83d", PLAINTEXT, "A" * 4_000]
        assert [each for each in strange if _opens(sealer, SealedRecord(key_id, each))] == []

    async def test_another_key_id_is_refused(
        self, sealer: IRecordSealer, foreign_sealer: IRecordSealer
    ) -> None:
        sealed = sealer.seal(CONTEXT, PLAINTEXT)
        other = foreign_sealer.seal(CONTEXT, PLAINTEXT).key_id
        names = [other, "", f"{sealed.key_id} ", sealed.key_id.swapcase() + "x"]
        assert [each for each in names if _opens(sealer, replace(sealed, key_id=each))] == []

    @pytest.mark.parametrize("place", OTHER_PLACES.values(), ids=OTHER_PLACES.keys())
    async def test_a_seal_opens_in_no_other_place(self, sealer: IRecordSealer, place: SealContext) -> None:
        assert not _opens(sealer, sealer.seal(CONTEXT, PLAINTEXT), place)

    async def test_places_that_read_alike_are_not_the_same(self, sealer: IRecordSealer) -> None:
        places = [
            replace(CONTEXT, run=RunKey(tenant, run))
            for tenant, run in (("a", "b\nc"), ("a\nb", "c"), ('a","b', "c"), ("a", 'b","c'), ("a,b", "c"))
        ]
        crossed = [
            (one, two)
            for one in places
            for two in places
            if one != two and _opens(sealer, sealer.seal(one, PLAINTEXT), two)
        ]
        assert crossed == []

    async def test_a_seal_of_another_key_is_refused_with_the_name_of_that_key(
        self, sealer: IRecordSealer, foreign_sealer: IRecordSealer
    ) -> None:
        sealed = foreign_sealer.seal(CONTEXT, PLAINTEXT)
        with pytest.raises(RecordSealError) as refused:
            sealer.open(CONTEXT, sealed)
        assert refused.value.key_id == sealed.key_id
        assert repr(sealed.key_id) in str(refused.value)

    async def test_a_broken_seal_is_refused_with_its_place_and_key(self, sealer: IRecordSealer) -> None:
        sealed = sealer.seal(CONTEXT, PLAINTEXT)
        with pytest.raises(RecordSealError) as refused:
            sealer.open(OTHER_PLACES["action"], sealed)
        assert refused.value.key_id == sealed.key_id
        for name in ("run/tool:pay#2", "run-1", sealed.key_id):
            assert repr(name) in str(refused.value)

    async def test_no_error_holds_anything_of_the_text(
        self, sealer: IRecordSealer, foreign_sealer: IRecordSealer
    ) -> None:
        sealed = sealer.seal(CONTEXT, PLAINTEXT)
        broken = replace(sealed, ciphertext=next(_changed(sealed.ciphertext)))
        attempts = [(foreign_sealer, CONTEXT, sealed), (sealer, CONTEXT, broken)]
        attempts += [(sealer, place, sealed) for place in OTHER_PLACES.values()]
        texts = [part for attempt in attempts for part in _error_texts(*attempt)]
        assert texts
        assert [part for part in texts if "quick" in part] == []


def _opens(sealer: IRecordSealer, sealed: SealedRecord, place: SealContext = CONTEXT) -> bool:
    """Return whether a seal opens; any error but the port's own is a failure of the test."""
    try:
        sealer.open(place, sealed)
    except RecordSealError:
        return False
    return True


def _changed(ciphertext: str) -> Iterator[str]:
    """Yield the ciphertext with each character changed, left out, doubled or followed by another."""
    for position, character in enumerate(ciphertext):
        for other in {"A", "B", "b", "0", "=", " "} - {character}:
            yield ciphertext[:position] + other + ciphertext[position + 1 :]
        yield ciphertext[:position] + ciphertext[position + 1 :]
        yield ciphertext[:position] + "\n" + ciphertext[position:]
    yield from (ciphertext + more for more in ("A", "=", "\n", "AAAA"))


def _decoded(ciphertext: str) -> Iterator[str]:
    """Yield the bytes of the usual encodings, one character each."""
    for decode in (b64decode, bytes.fromhex):
        try:
            yield decode(ciphertext).decode("latin-1")
        except ValueError:
            continue


def _error_texts(sealer: IRecordSealer, place: SealContext, sealed: SealedRecord) -> Iterator[str]:
    """Yield all texts of an error and its causes."""
    with pytest.raises(RecordSealError) as refused:
        sealer.open(place, sealed)
    error: BaseException | None = refused.value
    while error is not None:
        yield f"{error} {error!r} {vars(error)} {error.args}"
        error = error.__cause__ or error.__context__
