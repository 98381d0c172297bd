"""The part of `AgentRuns` with the bytes of media: uploads before a run, downloads of what a run has."""

from __future__ import annotations

from pilotage.agent.media import MediaSafetyLimits, bytes_of
from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.sniffing.sniff import sniff
from pilotage.errors import MediaBrokenError, MediaNotFoundError
from pilotage.runtime.door.tool_call import active_run
from pilotage.runtime.history import RunReader
from pilotage.runtime.journal.media import RunMedia
from pilotage.runtime.services import Services
from pilotage.values import value

UNKNOWN_TYPE = "application/octet-stream"


@value
class StoredMedia:
    """The bytes of media that a run has, with the type that they are of."""

    media_type: str
    content: bytes


class StoresMedia:
    """Stores and returns the bytes of media within the tenant of a principal."""

    services: Services
    _records: RunReader

    async def upload(
        self,
        content: bytes,
        *,
        media_type: str = UNKNOWN_TYPE,
        name: str | None = None,
        principal: Principal | None = None,
    ) -> MediaPart:
        """Store media for runs that begin later, and return the part to give them.

        The type is that of the bytes; `media_type` only names the kind of a text. Media that no run has taken are
        removed when their tenant is pruned.

        Raises:
            MediaRefusedError: they are too large, or not what they would have to be.
            MediaNotFoundError: nothing stores media.
        """
        if not content:
            raise MediaBrokenError("there are no bytes to store. Send those of a file.")
        given = MediaPart.of(content, media_type, name)
        return await self.services.media.upload((principal or LOCAL).tenant, given, MediaSafetyLimits())

    async def media(self, run_id: str, digest: str, *, principal: Principal | None = None) -> StoredMedia:
        """Return media of a run: of its input, of the results of its tools, of its answer.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            MediaNotFoundError: the run has no such media.
            MediaBrokenError: they are not those that were stored.
            RecordSealError: the application does not have their key.
        """
        state = await self._records.state(run_id, principal)
        run, media = RunKey(state.tenant_id, run_id), self.services.media
        if digest not in await media.held(run):
            raise MediaNotFoundError(f"run {run_id!r} has no media {digest[:12]!r}.")
        content = await media.read(run.tenant_id, digest)
        try:
            found = sniff(content, "text/plain").media_type
        except Exception:  # noqa: BLE001 - a reply may be of any type, which no reader is to guess
            found = UNKNOWN_TYPE
        return StoredMedia(found, content)


async def media_bytes(part: MediaPart) -> bytes:
    """Return the bytes of media: in the code of an agent or of a tool, those that the run stores under their digest.

    Media with a digest never change, so that this is no action: it is not recorded, and replay reads the same.

    Raises:
        MediaNotFoundError: they are at an address, or not there any more.
        MediaBrokenError: they are not those that were stored.
    """
    run = active_run()
    if run is not None:
        return await run.part(RunMedia).read(part)
    if part.data is None:
        raise MediaNotFoundError(
            "media with a digest or at an address are read in a run. Outside of runs: AgentRuns.media(run_id, digest)."
        )
    return bytes_of(part)
