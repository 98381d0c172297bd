"""The media in the input of a run: taken in before the run is recorded, held by it from its start on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.media_places import media_within, mentions_media
from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.persistence import RunKey
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.media import MediaStore, TakenIn
from pilotage.runtime.journal.run_input import decode_input, decode_instruction
from pilotage.runtime.journal.start_record import RunStart


def media_of_start(definition: AgentDefinition, start: RunStart) -> Iterator[MediaPart]:
    """Return the media in the recorded input of a run."""
    if mentions_media(start.input):
        yield from media_within(_values_of(definition, start.input))


async def take_in_start(
    media: MediaStore, definition: AgentDefinition, start: RunStart, *, is_durable: bool = True
) -> TakenIn[RunStart]:
    """Return the start of a run whose input has its media as runs have them.

    Raises:
        MediaRefusedError: media are not allowed, too large, or not what they would have to be.
        MediaNotFoundError: the tenant has no media of a digest.
    """
    if not mentions_media(start.input):
        return TakenIn(start, {})
    given = _values_of(definition, start.input)
    tenant, limits = start.principal.tenant, definition.spec.media_limits
    taken = await media.take_in(given, tenant, limits, is_durable=is_durable)
    if taken.value is given:
        return TakenIn(start, {})
    encoded: JsonObject = {name: to_json_value(each) for name, each in taken.value.items()}
    return TakenIn(replace(start, input=encoded), taken.contents, taken.digests)


async def hold_of_child(media: MediaStore, definition: AgentDefinition, start: RunStart, run: RunKey) -> None:
    """Let a child run hold the media that its parent gives it.

    Raises:
        MediaNotFoundError: the tenant does not have one of them.
    """
    found = {part.digest for part in media_of_start(definition, start)}
    await media.hold(run, [each for each in found if each is not None])


def _values_of(definition: AgentDefinition, recorded: JsonObject) -> Mapping[str, object]:
    """Return the values in a recorded input, by the names that it has them under."""
    if not definition.is_declarative:
        return decode_input(definition, recorded)
    given = decode_instruction(recorded)
    return {**recorded, words.MESSAGES: given.messages} if given.messages else recorded
