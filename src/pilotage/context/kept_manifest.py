"""The manifest of a model call as its row keeps it, and read back. Pure.

Nearly every call shows its model a transcript and nothing else. Of those only the figures are kept: the rest of their
manifests follows from them, and there is one for every call.
"""

from __future__ import annotations

from pilotage.agent.context import ContextManifest
from pilotage.context.assemble import Assembled, transcript_entry
from pilotage.context.evidence import manifest_payload
from pilotage.jsonvalue import JsonObject


def manifest_id_of(action_id: str) -> str:
    """The id of the manifest of a call."""
    return f"{action_id}/context"


def kept_manifest(assembled: Assembled) -> JsonObject:
    """The manifest as the row of the call keeps it; it has the id that follows from the call's."""
    manifest = assembled.manifest
    return manifest.entries[-1].metadata if assembled.is_plain else manifest_payload(manifest)


def whole_manifest(kept: JsonObject, action_id: str) -> JsonObject:
    """The manifest of a call as everybody reads it."""
    if "entries" in kept:
        return kept
    return manifest_payload(ContextManifest(manifest_id_of(action_id), (transcript_entry(kept),)))
