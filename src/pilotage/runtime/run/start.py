"""Starting durable runs: the start record, repeated starts with the same id, forks, types of input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast, overload
from weakref import WeakValueDictionary

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelToolSpec
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import (
    AsJson,
    AsText,
    Computes,
    ComputesAlone,
    Out,
    RunAgentInput,
    Takes,
    TakesNothing,
    TakesOther,
    TextDoesNotFit,
    TypedResult,
)
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.agent.state import AgentState
from pilotage.agent.tools.deferred import label_of_deferred
from pilotage.errors import CallerError, RunConflictError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, text_digest, to_json_value
from pilotage.runtime.budget.limits import deadline_at
from pilotage.runtime.door.run_source import NO_OVERRIDES, Overrides
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.exposure.trust import (
    encode_context,
    label_of_context,
    label_of_history,
    label_of_sent,
)
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import HistoryMoved
from pilotage.runtime.journal.media import TakenIn
from pilotage.runtime.journal.record_fields import contract_value, list_field
from pilotage.runtime.journal.run_input import encode_input, messages_of_caller
from pilotage.runtime.journal.start_record import RULES, RunStart, decode_start, definition_digest
from pilotage.runtime.run.blueprint import check_can_be_steered, deferred_tools_of
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.run.resume import SignalWatch
from pilotage.runtime.run.start_media import take_in_start
from pilotage.runtime.run.supervise import RunSupervisor
from pilotage.runtime.services import Services
from pilotage.safety.trust import TrustLabel

_NOTHING_ASKED = RunAgentInput("none", "none")
"""What a start asks for besides its input, where the input is another value."""
_RESERVED_KEYS = frozenset({"alias", "forked_from"})

_new_start = unchecked(RunStart)


class RunStarts:
    """Starts durable runs."""

    def __init__(self, services: Services, launcher: RunSupervisor) -> None:
        self._services = services
        self._launcher = launcher
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(
        self,
        agent: AgentRef,
        given: object,
        principal: Principal,
        alias: str | None,
        conversation: str | None,
        metadata: JsonObject,
        overrides: Overrides = NO_OVERRIDES,
        *,
        is_steered: bool = False,
    ) -> RunHandle:
        """Start a run, or attach to the run that was started with the same alias.

        With `is_steered` it waits for a steering instruction, as with an input that requires one.

        Raises:
            AgentDefinitionError: the class is no agent of this application, or the input does not fit.
            CallerError: the agent cannot wait for the steering instruction that the input requires.
            ModelNotFoundError: the input selects a model that the application does not have.
            MediaRefusedError: the input has media that the agent does not allow, or that its model does not take.
            RunConflictError: the alias belongs to a run with another input, or another run has the conversation.
        """
        definition = self._services.definition_of(agent)
        start = await self.described(
            definition, given, principal, conversation, metadata, salt_key=self._services.salt_key
        )
        if is_steered and not start.steering_input_required:
            check_can_be_steered(definition)
            start = replace(start, steering_input_required=True)
        taken = await take_in_start(self._services.media, definition, start)
        if alias is None:
            return await self._begin(definition, taken, self._services.ids.uid(), given, overrides)
        # The alias is chosen by the caller, so the run id is derived from it within the tenant.
        run_id = run_id_of(principal.tenant, alias)
        start = replace(taken.value, metadata={**start.metadata, "alias": alias})
        async with self._starting.setdefault(run_id, asyncio.Lock()):
            return await self._started_once(definition, replace(taken, value=start), run_id, given, overrides)

    async def _started_once(
        self,
        definition: AgentDefinition,
        taken: TakenIn[RunStart],
        run_id: str,
        given: object,
        overrides: Overrides,
    ) -> RunHandle:
        try:
            return await self._attached(run_id, taken.value) or await self._begin(
                definition, taken, run_id, given, overrides
            )
        except RunConflictError:
            # Another process started it with this alias at the same time.
            attached = await self._attached(run_id, taken.value)
            if attached is None:
                raise
            return attached

    async def described(
        self,
        definition: AgentDefinition,
        given: object,
        principal: Principal,
        conversation: str | None,
        metadata: JsonObject,
        *,
        salt_key: str = "",
    ) -> RunStart:
        """Return the start record of a run that would start now, without the choice of its model.

        A durable run has the tag of the key that salts its fingerprints.

        Raises:
            CallerError: the metadata has a reserved key, the conversation id is blank, or the agent cannot wait for the
                steering instruction that the input requires.
        """
        asked = given if isinstance(given, RunAgentInput) else _NOTHING_ASKED
        if asked.steering_input_required:
            check_can_be_steered(definition)
        conversation = conversation or asked.conversation_id
        metadata = {**asked.metadata, **metadata}
        _reject_reserved_keys(metadata)
        if conversation is not None:
            _reject_blank(conversation)
        has_turns = conversation is not None and not asked.message_history
        deferred: tuple[ModelToolSpec, ...] = ()
        if asked.deferred_tools:
            deferred = deferred_tools_of(self._services, definition, asked.deferred_tools)
        # A program of its own may use none of the tools; it joins their label when it asks for them.
        shown = deferred if definition.is_declarative else ()
        sent = messages_of_caller(definition, given)
        is_given_any = bool(asked.context.packs or shown or asked.message_history or sent)
        encoded, packs = encode_input(definition, given), encode_context(asked.context)
        if (redactor := self._secrets_of(principal.tenant)) is not None:
            # Program and record get the same.
            encoded, metadata, packs = redactor.json(encoded), redactor.json(metadata), redactor.json(packs)
            deferred = tuple(_without_secrets(tool, redactor) for tool in deferred)
        return _new_start(
            definition.agent_id,
            encoded,
            principal,
            conversation,
            deadline=self._deadline(definition.spec),
            limits=definition.spec.limits,
            history=await self._turns_before(definition, principal, conversation) if has_turns else None,
            definition=definition_digest(definition),
            metadata=metadata,
            given=packs,
            trust=_trust_record(asked, shown, sent) if is_given_any else {},
            model=None if asked.model_selection is None else asked.model_selection.model_ref,
            deferred=deferred,
            steering_input_required=asked.steering_input_required,
            on_rejection=asked.on_rejection,
            rules=RULES,
            salt_key=salt_key,
        )

    def _secrets_of(self, tenant: str) -> Redactor | None:
        """Return what masks the secrets that were handed out in a tenant; None where there are none."""
        known = None if self._services.secrets is None else self._services.handed_out(tenant)
        return Redactor(secrets=known) if known is not None and known.revision else None

    def _deadline(self, spec: AgentExecutionSpec) -> datetime | None:
        has_one = spec.effective_timeout_seconds is not None
        return deadline_at(self._services.clock.now(), spec) if has_one else None

    async def fork(
        self, run_id: str, rows: Sequence[JournalRow], principal: Principal, fork: str | None = None
    ) -> AgentState:
        """Begin a run with the rows of another one, without its parent and conversation and with a new deadline.

        `fork` is its id, a new one by default.
        """
        origin = decode_start(rows[0])
        definition = self._services.definition_of(origin.agent)
        facts = {name: fact for name, fact in origin.metadata.items() if name != "alias"}
        history = await self._launcher.conversations.history(origin, RunKey(principal.tenant, run_id))
        start = replace(
            origin,
            input=_with_history(origin.input, history),
            trust=_with_labels(origin.trust, history),
            salt=origin.salt or run_id,
            metadata={**facts, "forked_from": run_id},
            conversation=None,
            history=None,
            parent=None,
            generation=0,
            deadline=self._deadline(definition.spec),
            owner=None,
        )
        run = RunKey(principal.tenant, fork or self._services.ids.uid())
        media = self._services.media
        await media.hold(run, await media.held(RunKey(principal.tenant, run_id)))
        return await self._launcher.claims.begin_fork(definition, start, run, rows[1:])

    async def with_model(
        self,
        definition: AgentDefinition,
        start: RunStart,
        run_id: str,
        given: object,
        overrides: Overrides = NO_OVERRIDES,
    ) -> RunStart:
        """Return the start record of a run that begins now, with the choice of its model.

        Raises:
            ModelNotFoundError: the application has no such model, or several models of which none is chosen.
            CallerError: the agent uses the models it injects, or the model lacks a capability that the agent needs.
            AgentModelConfigurationError: the resolver of the application gave no answer.
        """
        models = self._launcher.models
        if not models.are_made(definition, start, overrides):
            start = await models.of_run(definition, start, given, run_id, overrides)
        return start

    async def _begin(
        self,
        definition: AgentDefinition,
        taken: TakenIn[RunStart],
        run_id: str,
        given: object,
        overrides: Overrides,
    ) -> RunHandle:
        start = await self.with_model(definition, taken.value, run_id, given, overrides)
        self._launcher.models.check_media(definition, start, overrides)
        run = RunKey(start.principal.tenant, run_id)
        await self._services.media.store(run, taken)
        while True:
            try:
                live = await self._launcher.begin(definition, start, run, None, overrides)
            except HistoryMoved:
                # Another run of the conversation has ended since its turns were counted.
                history = await self._turns_before(definition, start.principal, start.conversation)
                start = replace(start, history=history)
            else:
                return self._launcher.handle(live)

    async def _attached(self, run_id: str, start: RunStart) -> RunHandle | None:
        """Return the handle of the run that an earlier start with the same alias and input began."""
        principal = start.principal
        state = await self._launcher.records.find(run_id, principal.tenant)
        if state is None:
            return None
        rows = await self._launcher.records.rows(RunKey(principal.tenant, run_id))
        before = decode_start(rows[0])
        if _identity_of(before) != _identity_of(start):
            raise RunConflictError(
                f"a run was started as {start.metadata[words.ALIAS]!r} already, with another agent or input. "
                "Choose another id."
            )
        handle = self._launcher.attached(state)
        is_own = before.principal.id == principal.id
        return handle if is_own else handle.for_reader(self._launcher.records)

    async def _turns_before(
        self, definition: AgentDefinition, principal: Principal, conversation: str | None
    ) -> int | None:
        if conversation is None or not definition.is_declarative:
            return None
        return await self._launcher.conversations.count(principal.tenant, conversation)


def _without_secrets(tool: ModelToolSpec, redactor: Redactor) -> ModelToolSpec:
    """Return a tool of the caller with the secrets masked in what it says about itself."""
    fields = as_object(to_json_value(tool))
    masked = redactor.json(fields)
    return tool if masked is fields else contract_value(ModelToolSpec, masked)


def _with_history(given: JsonObject, turns: Sequence[ConversationTurn]) -> JsonObject:
    """Return the input of a forked run: the earlier turns of its conversation, then its own messages."""
    if not turns:
        return given
    earlier: list[JsonValue] = [to_json_value(turn.message) for turn in turns]
    return {**given, "messages": [*earlier, *list_field({"messages": [], **given}, "messages")]}


def _identity_of(start: RunStart) -> tuple[object, ...]:
    """Return the fields that must be equal for two starts to be the same."""
    asked = start.agent, start.input, start.given, start.model, start.deferred
    return *asked, start.steering_input_required


def _trust_record(
    asked: RunAgentInput, deferred: Sequence[ModelToolSpec], sent: Sequence[ModelMessage]
) -> JsonObject:
    """Return the trust label of a run that reads the given context, tools and messages; empty for the neutral one."""
    labels = [label_of_context(asked.context)] if asked.context.packs else []
    given = (label_of_history(asked.message_history), label_of_sent(sent), label_of_deferred(deferred))
    label = TrustLabel.join_all([*labels, *given])
    return {} if label == TrustLabel() else label.to_payload()


def _with_labels(trust: JsonObject, turns: Sequence[ConversationTurn]) -> JsonObject:
    """Return the trust label of a forked run: its own, joined with the labels of the earlier turns."""
    earlier = TrustLabel.join_all(turn.trust for turn in turns)
    known = TrustLabel.from_payload(trust) if trust else TrustLabel()
    return trust if earlier == TrustLabel() else known.join(earlier).to_payload()


def _reject_reserved_keys(metadata: JsonObject) -> None:
    """Check that a caller's metadata has no reserved key: runs are found by their alias."""
    if taken := sorted(_RESERVED_KEYS.intersection(metadata)):
        names = ", ".join(map(repr, taken))
        raise CallerError(
            f"the metadata of a run has {names}, which the run sets itself. Choose another name; a name for the run "
            "goes into id=."
        )


def _reject_blank(conversation_id: str) -> None:
    if not conversation_id.strip():
        raise CallerError(
            "conversation_id is blank. Give it at least one visible character, or leave it out."
        )


def run_id_of(tenant: str, alias: str) -> str:
    """Return the id of the run that has this alias in the tenant."""
    return text_digest(f"start\n{tenant}\n{alias}")[:32]


Given = TypeVar("Given")


class TypedRun(RunHandle, Generic[Out]):
    """A `RunHandle` as type checkers see it where they know the agent: its result has the declared output."""

    async def result(self) -> TypedResult[Out]:
        return cast("TypedResult[Out]", await super().result())


class StartOptions(TypedDict, total=False):
    """The options of `start`."""

    principal: Principal | None
    id: str | None
    conversation_id: str | None
    metadata: JsonObject | None
    steering_input_required: bool


class StartsRuns:
    """Starts runs; the part of `AgentRuns` that is typed by the agent."""

    _starts: RunStarts
    _watch: SignalWatch

    @overload
    async def start(
        self, agent: type[Takes[Given, Out]], given: Given | AsJson, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[TakesNothing[Out]], given: AsJson | None = None, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[Computes[Given, Out]], given: Given | AsJson, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[ComputesAlone[Out]], given: AsJson | None = None, **options: Unpack[StartOptions]
    ) -> TypedRun[Out]: ...
    @overload
    async def start(
        self, agent: type[TakesOther], given: str, **options: Unpack[StartOptions]
    ) -> TextDoesNotFit: ...
    @overload
    async def start(
        self, agent: AgentRef, given: AsText = None, **options: Unpack[StartOptions]
    ) -> RunHandle: ...

    async def start(
        self,
        agent: AgentRef,
        given: Any = None,
        *,
        principal: Principal | None = None,
        id: str | None = None,  # noqa: A002 - the word of the contract
        conversation_id: str | None = None,
        metadata: JsonObject | None = None,
        steering_input_required: bool = False,
    ) -> Any:
        """Start a run; when this returns, the run is durable.

        `id` is the caller's own id for the run: a second start with the same id attaches to the same run. With
        `steering_input_required` the run waits for a steering instruction before it begins.

        Raises:
            AgentDefinitionError: the class is no agent of this application, or the input does not fit.
            CallerError: the agent cannot wait for a steering instruction that is required.
            RunConflictError: the id belongs to a run with another input, or another run has the conversation.
        """
        handle = await self._starts.start(
            agent,
            given,
            principal or LOCAL,
            alias=id,
            conversation=conversation_id,
            metadata=metadata or {},
            is_steered=steering_input_required,
        )
        self._watch.begin()
        return handle
