"""Media in the results of calls: stored under their digests before the row of the result is written."""

from __future__ import annotations

from pilotage.errors import MediaNotFoundError, MediaRefusedError
from pilotage.runtime.door.outcome import UnfitResultError
from pilotage.runtime.door.run import Run
from pilotage.runtime.effect import CHILD, Effect
from pilotage.runtime.journal.media import RunMedia


def may_have_media(effect: Effect) -> bool:
    """Return whether results of an effect may have media: by their declared type, or because a child returns them."""
    return effect.codec.has_media or effect.kind is CHILD


async def with_stored_media(run: Run, effect: Effect, result: object) -> object:
    """Return a result with digests in place of its media; the run holds them before its row is written.

    Raises:
        UnfitResultError: they are not allowed, or are not what they would have to be.
    """
    media = run.part(RunMedia)
    if effect.kind is CHILD:
        await media.hold_within(result)
        return result
    try:
        return await media.keep(result)
    except (MediaRefusedError, MediaNotFoundError) as error:
        raise UnfitResultError(
            f"{effect.action.name!r} was done, and its media are refused: {error}"
        ) from error
