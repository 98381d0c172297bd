"""The media of runs: taken in by their bytes, stored once under their digest, given to models.

Rows, messages and results have digests. The bytes are stored before the first row that has their digest is committed.
Where the runs are ephemeral, or nothing provides `IBlobs`, the messages have the bytes themselves.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from typing import Generic, TypeVar

from pilotage.agent.media import MediaSafetyLimits, by_digest, bytes_of, taken_in
from pilotage.agent.media_places import digests_in, media_within, with_media
from pilotage.agent.messages import MediaPart
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.blobs import IBlobs, IMediaSource, StoredBlob
from pilotage.agent.ports.persistence import JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.agent.safety_checks import WAY_OUT
from pilotage.agent.tools.declare import OutsideRuns
from pilotage.errors import CallerError, MediaBrokenError, MediaNotFoundError, MediaRefusedError
from pilotage.runtime.journal.chain import Damage
from pilotage.runtime.journal.interruptions import RecordDamaged, SealMissing, StoreUnavailable
from pilotage.values import value

T = TypeVar("T")
_MOST_AT_HAND = 64 * 1024 * 1024
"""The most bytes in base64 that an attempt remembers, so that a loop does not read them again for every request."""
_LARGE = 256 * 1024
"""Bytes from this number on are sealed, opened and digested in a thread."""


@value(slots=False)
class TakenIn(Generic[T]):
    """A value whose media have digests, and the bytes that are to be stored; those of the others are stored."""

    value: T
    contents: Mapping[str, bytes]
    digests: frozenset[str] = frozenset()


class MediaStore:
    """The media of an application's runs. Its ports are asked for on first use: that may open a database."""

    def __init__(
        self,
        blobs: Callable[[], IBlobs | None],
        source: Callable[[], IMediaSource | None],
        sealer: Callable[[], IRecordSealer | None],
    ) -> None:
        self._stored, self._source, self._sealer = blobs, source, sealer

    @property
    def keeps(self) -> bool:
        """Whether durable runs have digests in place of the bytes."""
        return self._stored() is not None

    async def take_in(
        self, given: T, tenant: str, limits: MediaSafetyLimits, *, is_durable: bool = True
    ) -> TakenIn[T]:
        """Return a value with its media as runs have them: looked at, within the limits, fetched from addresses.

        Nothing is stored yet.

        Raises:
            MediaRefusedError: media are not allowed, too large, or not what they would have to be.
            MediaNotFoundError: the tenant has no media of a digest.
        """
        parts = list(dict.fromkeys(media_within(given)))
        if not parts:
            return TakenIn(given, {})
        limits.check_sizes(parts)
        changed, contents = dict[MediaPart, MediaPart](), dict[str, bytes]()
        for part in parts:
            content = await self._content(part, tenant, limits)
            if content is None:
                changed[part] = part
                continue
            found = await _off_the_loop(taken_in, part, content, limits, size=len(content))
            if part.digest is None and found.digest is not None:
                contents[found.digest] = content
            changed[part] = found if is_durable and self.keeps else _with_bytes(found, content)
        limits.check([changed[part] for part in media_within(given)])
        digests = frozenset(each.digest for each in changed.values() if each.digest is not None)
        return TakenIn(with_media(given, changed), contents if digests else {}, digests)

    async def _content(self, part: MediaPart, tenant: str, limits: MediaSafetyLimits) -> bytes | None:
        """Return the bytes of a part; None for an address that is given to the model as it is."""
        if part.digest is not None:
            return await self.read(tenant, part.digest)
        if part.url is None:
            return bytes_of(part)
        source = self._source()
        if source is None:
            return None
        name = type(source).__name__
        try:
            with OutsideRuns():
                content = _whole(await source.fetch(part.url, limits.max_part_bytes), name)
        except MediaRefusedError:
            raise
        except Exception as error:
            raise MediaRefusedError(f"{name} did not fetch media ({type(error).__name__}).") from error
        limits.check_sizes([by_digest(part, content)])
        return content

    async def store(self, run: RunKey, taken: TakenIn[T]) -> None:
        """Store new bytes and let a run hold all of the media that it was given.

        Raises:
            MediaNotFoundError: stored ones were removed meanwhile.
        """
        blobs = self._stored()
        if blobs is None or not taken.digests:
            return
        for digest, content in taken.contents.items():
            sealed = await self._sealed(run.tenant_id, digest, content)
            await blobs.put(run.tenant_id, digest, sealed, held_by=run)
        if known := taken.digests.difference(taken.contents):
            await blobs.hold(run, known)

    async def hold(self, run: RunKey, digests: Iterable[str]) -> None:
        """Let a run hold stored media.

        Raises:
            MediaNotFoundError: the tenant does not have one of them.
        """
        if wanted := frozenset(digests):
            await self._blobs(next(iter(wanted))).hold(run, wanted)

    async def hold_present(self, run: RunKey, digests: Iterable[str]) -> frozenset[str]:
        """Let a run hold those of some stored media that are still there, and return them."""
        blobs, wanted = self._stored(), frozenset(digests)
        if blobs is None or not wanted:
            return frozenset()
        present = wanted & await blobs.held(run)
        for digest in wanted - present:
            with suppress(MediaNotFoundError):
                await blobs.hold(run, [digest])
                present |= {digest}
        return present

    async def upload(self, tenant: str, part: MediaPart, limits: MediaSafetyLimits) -> MediaPart:
        """Store media that no run has yet, and return them as a run takes them.

        Raises:
            MediaRefusedError: they are too large, or not what they would have to be.
            MediaNotFoundError: nothing stores media.
        """
        taken = await self.take_in(part, tenant, limits)
        blobs = self._blobs(taken.value.digest or "")
        for digest, content in taken.contents.items():
            await blobs.put(tenant, digest, await self._sealed(tenant, digest, content))
        return taken.value

    async def read(self, tenant: str, digest: str) -> bytes:
        """Return the bytes of a tenant under a digest.

        Raises:
            MediaNotFoundError: the tenant does not have them.
            MediaBrokenError: they are not those that were stored.
            RecordSealError: the application does not have their key.
        """
        stored = await self._blobs(digest).get(tenant, digest)
        return await _off_the_loop(self._opened, tenant, digest, stored, size=len(stored.content))

    async def held(self, run: RunKey) -> frozenset[str]:
        """Return the digests of the media that a run holds."""
        blobs = self._stored()
        return frozenset() if blobs is None else await blobs.held(run)

    async def damage(self, run: RunKey, digests: Iterable[str]) -> str | None:
        """Return which of a run's media are missing or not those that were stored; None where all are whole."""
        for digest in sorted(digests):
            try:
                with suppress(RecordSealError):  # without the key this is not known
                    await self.read(run.tenant_id, digest)
            except (MediaNotFoundError, MediaBrokenError) as error:
                return str(error).rstrip(".")
        return None

    def _blobs(self, digest: str) -> IBlobs:
        blobs = self._stored()
        if blobs is None:
            raise MediaNotFoundError(
                f"there are no media {digest[:12]!r}: nothing provides IBlobs. Install pilotage[sqlalchemy]."
            )
        return blobs

    async def _sealed(self, tenant: str, digest: str, content: bytes) -> StoredBlob:
        sealer = self._sealer()
        if sealer is None:
            return StoredBlob(content)
        return await _off_the_loop(_seal, sealer, _place(tenant, digest), content, size=len(content))

    def _opened(self, tenant: str, digest: str, stored: StoredBlob) -> bytes:
        content, sealer = stored.content, self._sealer()
        if stored.key_id is not None:
            place = _place(tenant, digest)
            if sealer is None:
                raise RecordSealError.unknown_key(place, stored.key_id, WAY_OUT)
            try:
                content = _open(sealer, place, stored.key_id, content)
            except RecordSealError as error:
                if not error.is_damaged:
                    raise
                raise _changed(digest) from error
        if sha256(content).hexdigest() != digest:
            raise _changed(digest)
        return content


def _changed(digest: str) -> MediaBrokenError:
    return MediaBrokenError(
        f"the stored bytes of media {digest[:12]!r} are not those that were stored. Restore them from a backup."
    )


def _place(tenant: str, digest: str) -> SealContext:
    """Return the place that a seal is bound to: media of all runs of a tenant are stored once."""
    return SealContext(RunKey(tenant, "media"), digest, JournalStage.AFTER)


def _seal(sealer: IRecordSealer, place: SealContext, content: bytes) -> StoredBlob:
    sealed = sealer.seal(place, b64encode(content).decode("ascii"))
    return StoredBlob(sealed.ciphertext.encode("ascii"), sealed.key_id)


def _open(sealer: IRecordSealer, place: SealContext, key_id: str, content: bytes) -> bytes:
    opened = sealer.open(place, SealedRecord(key_id, content.decode("ascii", errors="replace")))
    return b64decode(opened)


def _with_bytes(part: MediaPart, content: bytes) -> MediaPart:
    return MediaPart.of(content, part.media_type, part.name)


async def _off_the_loop(function: Callable[..., T], *given: object, size: int) -> T:
    """Return what a function returns; for large media it is called in a thread."""
    return function(*given) if size < _LARGE else await asyncio.to_thread(function, *given)


@contextmanager
def _ending_the_attempt() -> Generator[None]:
    """Let errors of the store and of the key end the attempt: they are no outcomes of an effect."""
    try:
        yield
    except CallerError:
        raise
    except RecordSealError as error:
        raise SealMissing(str(error)) from error
    except Exception as error:
        raise StoreUnavailable(f"the store of media failed: {error}") from error


class RunMedia:
    """The media of one attempt at a run."""

    def __init__(
        self, store: MediaStore, run: RunKey, limits: MediaSafetyLimits, *, is_durable: bool
    ) -> None:
        self._store = store
        self._run = run
        self._limits = limits
        self._is_durable = is_durable
        self._at_hand: dict[str, str] = {}

    async def keep(self, result: T) -> T:
        """Return the result of an effect with digests in place of its media, which are stored then.

        Raises:
            MediaRefusedError: they are not allowed, too large, or not what they would have to be.
        """
        store, limits = self._store, self._limits
        with _ending_the_attempt():
            taken = await store.take_in(result, self._run.tenant_id, limits, is_durable=self._is_durable)
            await store.store(self._run, taken)
        return taken.value

    async def hold_within(self, result: object) -> None:
        """Hold the media that the JSON result of a child has: they stay when the child is removed."""
        if self._is_durable and (digests := digests_in(result)):
            with _ending_the_attempt():
                await self._store.hold(self._run, digests)

    async def keep_reply(self, parts: T) -> T:
        """Return the parts of a reply, or an answer, with digests in place of their bytes; nothing is refused.

        Bytes of no known type are stored as such, so that no reader takes them for a picture.
        """
        if not (self._is_durable and self._store.keeps):
            return parts
        contents, changed = dict[str, bytes](), dict[MediaPart, MediaPart]()
        for part in media_within(parts):
            if part.data is None:
                continue
            with suppress(MediaBrokenError):
                content = bytes_of(part)
                try:
                    found = taken_in(part, content, self._limits)
                except MediaRefusedError:
                    found = by_digest(replace(part, media_type="application/octet-stream"), content)
                changed[part] = found
                contents[found.digest or ""] = content
        with _ending_the_attempt():
            await self._store.store(self._run, TakenIn(None, contents, frozenset(contents)))
        return with_media(parts, changed)

    async def filled(self, request: ModelRequest, media: Sequence[MediaPart]) -> ModelRequest:
        """Return a request with the bytes of its media, as its model gets it.

        Raises:
            MediaNotFoundError, MediaBrokenError: they are not there any more, or were changed.
        """
        changed = {part: await self._filled(part) for part in media if part.digest is not None}
        if not changed:
            return request
        return replace(request, messages=with_media(tuple(request.messages), changed))

    async def _filled(self, part: MediaPart) -> MediaPart:
        digest = part.digest or ""
        data = self._at_hand.get(digest)
        if data is None:
            data = b64encode(await self._stored(digest)).decode("ascii")
            while self._at_hand and len(data) + sum(map(len, self._at_hand.values())) > _MOST_AT_HAND:
                del self._at_hand[next(iter(self._at_hand))]
            self._at_hand[digest] = data
        return MediaPart(part.media_type, data=data, name=part.name)

    async def _stored(self, digest: str) -> bytes:
        """Return stored bytes; those of the run itself that are missing or were changed are a damage of its record.

        Raises:
            MediaNotFoundError, MediaBrokenError: they are not those of the run.
            RunInterruption: the attempt ends.
        """
        with _ending_the_attempt():
            try:
                return await self._store.read(self._run.tenant_id, digest)
            except (MediaNotFoundError, MediaBrokenError) as error:
                if digest not in await self._store.held(self._run):
                    raise
                raise RecordDamaged(Damage(0, None, str(error).rstrip("."))) from error

    async def read(self, part: MediaPart) -> bytes:
        """Return the bytes of a part.

        Raises:
            MediaNotFoundError, MediaBrokenError: they are not there.
        """
        if part.digest is not None:
            return await self._stored(part.digest)
        if part.url is not None:
            raise MediaNotFoundError(f"the media at {part.url!r} were not fetched.")
        return bytes_of(part)


def _whole(content: object, source: str) -> bytes:
    if not isinstance(content, bytes):
        raise MediaRefusedError(f"{source} did not fetch media: it gave a {type(content).__name__}.")
    return content
