"""Sending signals: what a run accepts is stored as it may be stored, and delivered to the run where it is live."""

from __future__ import annotations

from collections.abc import Sequence

from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.commit_rules import refuse_after_end
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.signals import (
    ATTACHMENTS,
    AgentSignal,
    AgentSignalKind,
    AgentSteeringUpdate,
    accepts_signal,
    refuse_wordless,
    update_of,
)
from pilotage.agent.state import AgentState
from pilotage.errors import CallerError, MediaTooLargeError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.door.run_source import NO_OVERRIDES
from pilotage.runtime.journal.record_fields import DamagedRecordError, contract_value, objects_field
from pilotage.runtime.journal.seals import SEALED
from pilotage.runtime.journal.start_record import decode_start
from pilotage.runtime.people.answers import OWN_IDS
from pilotage.runtime.people.requests import redacted_signal
from pilotage.runtime.people.steering import refuse_other_content, refuse_revision
from pilotage.runtime.run.resume import SignalWatch
from pilotage.runtime.run.supervise import RunSupervisor
from pilotage.runtime.services import Services


def reject_own_id(signal_id: str | None) -> None:
    """Refuse the id of a sender that begins like one of an answer."""
    if signal_id is not None and signal_id.startswith(OWN_IDS):
        raise CallerError(f"the id {signal_id!r} begins like one of an answer. Choose another one.")


_UNKNOWN_TYPE = "application/octet-stream"


def _attached(given: JsonValue) -> tuple[MediaPart, ...]:
    """Return the media parts in the payload of a message; their type is that of their bytes.

    Raises:
        CallerError: these are none.
    """
    try:
        parts = objects_field({ATTACHMENTS: given}, ATTACHMENTS)
        return tuple(contract_value(MediaPart, {"media_type": _UNKNOWN_TYPE, **part}) for part in parts)
    except DamagedRecordError as error:
        raise CallerError(
            f"the {ATTACHMENTS!r} of a message are no media: {error}. Give a list of objects as an upload returns "
            "them, or the JSON of MediaPart values."
        ) from error


class SignalSender:
    """Stores signals to runs, and delivers them."""

    def __init__(self, services: Services, launcher: RunSupervisor, watch: SignalWatch) -> None:
        self._services = services
        self._launcher = launcher
        self._watch = watch

    async def send(
        self, state: AgentState, kind: AgentSignalKind, payload: JsonObject, signal_id: str | None
    ) -> AgentSignal:
        """Store a signal to a run that accepts it; one with a known id is the first one with that id.

        Raises:
            CallerError: the run has ended, or its agent does not accept signals of this kind or with this payload.
            SteeringConflictError: it is a revision of a steering instruction, and another one counts.
        """
        if kind is AgentSignalKind.STEERING_INSTRUCTION:
            update = AgentSteeringUpdate.from_payload(payload)
            if update is not None:
                return await self._revise(state, update, payload, signal_id)
        return await self._send(state, kind, payload, signal_id)

    async def _revise(
        self, state: AgentState, update: AgentSteeringUpdate, payload: JsonObject, signal_id: str | None
    ) -> AgentSignal:
        """Store a revision of a steering instruction; the same one again is the first one."""
        kind, payload = AgentSignalKind.STEERING_INSTRUCTION, {**payload, **update.to_payload()}
        signal_id = signal_id or update.signal_id(state.id)
        if update.revision > 1 and not state.is_terminal:
            seals = self._services.signal_seals(RunKey(state.tenant_id, state.id))
            sent = [seals.opened(each) for each in await self._services.signals.list_steering(state.id)]
            if signal_id not in {each.id for each in sent}:
                refuse_revision(update, sent)
        stored = await self._send(state, kind, payload, signal_id)
        masked = self.redacted(state, AgentSignal(signal_id, state.id, kind, payload))
        refuse_other_content(update, update_of(stored), update_of(masked))
        return stored

    async def _send(
        self, state: AgentState, kind: AgentSignalKind, payload: JsonObject, signal_id: str | None
    ) -> AgentSignal:
        if state.is_terminal and signal_id is not None:
            return await self.store(state, AgentSignal(signal_id, state.id, kind, payload))
        refuse_after_end(RunKey(state.tenant_id, state.id), state.status)
        spec = self._services.definition_of(state.agent_type).spec
        if not accepts_signal(kind, spec.accepted_signals):
            names = ", ".join(spec.accepted_signals) or "none but control signals"
            raise CallerError(
                f"agent {state.agent_type!r} does not accept {kind.value!r} signals. It accepts: {names}."
            )
        if update_of(AgentSignal(signal_id or "-", state.id, kind, payload)) is None:
            refuse_wordless(kind, payload)
        if SEALED in payload:
            raise CallerError(
                f"a payload has the key {SEALED!r}, which is the run's own. Choose another one."
            )
        if kind is AgentSignalKind.USER_MESSAGE and payload.get(ATTACHMENTS):
            payload = await self._with_media_taken_in(state, payload)
        signal = AgentSignal(signal_id or self._services.ids.uid(), state.id, kind, payload)
        return await self.store(state, signal, is_redacted=spec.redaction is not None)

    async def _with_media_taken_in(self, state: AgentState, payload: JsonObject) -> JsonObject:
        """Return the payload of a message with its media as runs have them; the run holds them from now on.

        Raises:
            CallerError: what is attached are no media.
            MediaRefusedError: they are not allowed, too large, or not what they would have to be, or the model of the
                run does not take them.
        """
        media, run = self._services.media, RunKey(state.tenant_id, state.id)
        definition = self._services.definition_of(state.agent_type)
        limits = definition.spec.media_limits
        taken = await media.take_in(_attached(payload[ATTACHMENTS]), state.tenant_id, limits)
        rows = await self._launcher.records.rows(run)
        live = self._launcher.live(run.run_id)
        overrides = NO_OVERRIDES if live is None else live.run.source.overrides
        self._launcher.models.check_taken(definition, decode_start(rows[0]), overrides, taken.value)
        known = len(taken.digests.union(await media.held(run)))
        if known > limits.max_parts:
            raise MediaTooLargeError(
                f"with this message the run has {known} media; {limits.max_parts} are allowed in a request."
            )
        await media.store(run, taken)
        return {**payload, ATTACHMENTS: [to_json_value(part) for part in taken.value]}

    async def store(
        self, state: AgentState, signal: AgentSignal, *, is_redacted: bool = False
    ) -> AgentSignal:
        """Store a signal and deliver it to the run if it is live here, or else notify the other processes."""
        closed = self._closed(state, signal, is_redacted=is_redacted)
        return await self._delivered(state, await self._services.signals.append(closed))

    async def store_all(self, signals: Sequence[tuple[AgentState, AgentSignal]]) -> dict[str, AgentSignal]:
        """Store signals, all of them or none, and deliver them; return those that are stored, by id.

        Where one of the ids is known, the signals that were there are returned, and nothing is stored.
        """
        states = {signal.id: state for state, signal in signals}
        closed = [self._closed(state, signal) for state, signal in signals]
        stored = await self._services.signals.append_all(closed)
        return {name: await self._delivered(states[name], each) for name, each in stored.items()}

    def _closed(self, state: AgentState, signal: AgentSignal, *, is_redacted: bool = False) -> AgentSignal:
        """Return a signal as it may be stored."""
        seals = self._services.signal_seals(RunKey(state.tenant_id, state.id))
        return seals.closed(self.redacted(state, signal), is_redacted=is_redacted)

    async def _delivered(self, state: AgentState, stored: AgentSignal) -> AgentSignal:
        """Deliver a stored signal that has no end yet, and return it opened."""
        opened = self._services.signal_seals(RunKey(state.tenant_id, state.id)).opened(stored)
        if opened.end is None:
            await self._watch.deliver(opened)
        return opened

    def redacted(self, state: AgentState, signal: AgentSignal) -> AgentSignal:
        """Return a signal as it may be stored, by the policy of its agent and the secrets of its tenant."""
        services = self._services
        is_known = state.agent_type in services.agent_ids
        policy = services.definition_of(state.agent_type).spec.redaction if is_known else None
        return redacted_signal(signal, policy, services.handed_out(state.tenant_id))
