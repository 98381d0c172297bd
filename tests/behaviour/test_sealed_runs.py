"""Records that others must not read are sealed, and replay gets them back; secrets are in no record at all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from decimal import Decimal
from typing import Annotated, cast

import pytest
from tests.behaviour.bureau import (
    COMPLETED,
    DURABLE,
    FAILED,
    WAITING,
    Bureau,
    asked,
    hired,
    resumed,
    started,
    triple,
)
from tests.behaviour.office import GATED, UNGATED, Worker

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    EvidenceCapture,
    IAgentModel,
    Idempotency,
    Pod,
    RunContext,
    SecretField,
    SensitiveField,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentActionKind,
    AgentRecoveryRequest,
    ISecrets,
    RecoveryDecision,
    SecretRef,
    ToolCallArgsDeltaEvent,
)
from pilotage.agent.ports.persistence import JournalRow, RunKey, SealedRecord
from pilotage.agent.ports.sealing import RecordSealError, SealContext
from pilotage.agent.state import AgentStateReason
from pilotage.errors import AgentPersistenceConfigurationError, CallerError, ToolError
from pilotage.jsonvalue import JsonObject, canonical_json, text_digest
from pilotage.runtime.journal.scope import fingerprint_of
from pilotage.safety import StreamingRedactionPolicy, StreamingSensitivePattern
from pilotage.testing import MemoryStore, ScriptedModel, StopAfter, StopBefore, calls, says
from pilotage.testing.sealer import MemorySealer

Iban = Annotated[str, SensitiveField(PII.ACCOUNT_ID)]
MINE, BACK = "DE00SENSITIVE", "EVITISNES00ED"


@dataclass(frozen=True)
class Receipt:
    """What a payment gives; who it went to is for the caller alone."""

    number: int
    to: Iban


@dataclass(frozen=True)
class Session:
    """What logging in gives: a name, and a token that nobody may keep."""

    user: str
    token: Annotated[str, SecretField()]


@Pod
class Bank:
    def __init__(self) -> None:
        self.paid: list[str] = []
        self.looked_up = 0

    @agent_tool(approval=UNGATED)
    async def pay(self, iban: Iban) -> Iban:
        """Pay."""
        self.paid.append(iban)
        return iban[::-1]

    @agent_tool(approval=GATED)
    async def close(self, iban: Iban) -> int:
        """Close an account."""
        return len(iban)

    @agent_tool(approval=GATED)
    async def stamp(self, text: str) -> str:
        """Stamp something."""
        return text

    @agent_tool(approval=UNGATED)
    async def log_in(self, user: str) -> Session:
        """Log in."""
        return Session(user, "TOKEN-4711")

    @agent_tool(effects=ToolEffects.read_only(), evidence=EvidenceCapture.NONE)
    async def look_up(self, account: int) -> str:
        """Look up what is not to be shown."""
        self.looked_up += 1
        return MINE


@Agent(spec=AgentExecutionSpec(name="teller", recovery=DURABLE))
class Teller:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, iban: Iban) -> Receipt:
        back = await self.bank.pay(iban)
        seen = await self.bank.look_up(1)
        assert (back, seen) == (BACK, MINE)
        return Receipt(await self.bank.close(iban), iban)


def texts(kept: object, seen: set[int] | None = None) -> Iterator[str]:
    """Every text in an object and in whatever it holds, but for what is sealed."""
    seen = set() if seen is None else seen
    if isinstance(kept, str):
        yield kept
        return
    if isinstance(kept, SealedRecord) or id(kept) in seen or isinstance(kept, int | float | bytes | type):
        return
    seen.add(id(kept))
    parts: list[object] = []
    if isinstance(kept, Mapping):
        parts = [*cast("Mapping[object, object]", kept).items()]
    elif isinstance(kept, list | tuple | set | frozenset):
        parts = list(cast("tuple[object, ...]", kept))
    elif is_dataclass(kept):
        parts = [getattr(kept, field.name) for field in fields(kept)]
    elif hasattr(kept, "__dict__"):
        parts = list(vars(kept).values())
    for part in parts:
        yield from texts(part, seen)


def stored(store: MemoryStore) -> str:
    """Everything that somebody reads who opens the store without a key; what people sent is as they sent it."""
    tables = store.tables
    return "\n".join(
        texts([tables.journals, tables.states, tables.evidence, tables.outbox, tables.conversations])
    )


def sealed(rows: list[JournalRow]) -> list[str]:
    return [f"{row.action_id} {row.stage}" for row in rows if isinstance(row.record, SealedRecord)]


@Agent(spec=AgentExecutionSpec(name="fast teller", recovery=DURABLE))
class FastTeller:
    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    async def execute(self, iban: Iban) -> int:
        async def pay(account: str) -> str:
            return await self.bank.pay(account)

        await asyncio.gather(pay(iban), self.bank.look_up(1))
        return await self.bank.close(iban)


async def test_arguments_cannot_be_guessed_from_fingerprints_ids_and_digests() -> None:
    """Who reads the store knows everything but the key, and tries all accounts that there are."""
    bureau = Bureau()
    async with bureau.process(FastTeller, None, Bank()) as runs:
        waiting = await started(runs, FastTeller, MINE)
    assert triple(waiting.state) == WAITING
    rows, run_id = await bureau.rows(waiting.state.id), waiting.state.id
    assert not [row for row in rows if row.fingerprint in guesses(run_id, row.action_id)]
    branches = [row.action_id.split("/")[1] for row in rows if "/task:" in row.action_id]
    assert branches
    asked: JsonObject = {"iban": MINE}
    guessed = [
        canonical_json(asked),
        *(f"{salt}\n{canonical_json([asked, [MINE]])}" for salt in (run_id, "")),
    ]
    known = {text_digest(text)[:8] for text in guessed}
    assert not [name for name in branches if name.partition("#")[0].rpartition(":")[2] in known]


def guesses(run_id: str, action_id: str) -> set[str]:
    """The fingerprints that an account leads to without the key."""
    names = ("pay", "close", "look_up", "bank.pay", "bank.close", "Bank.pay", "Bank.close")
    return {
        fingerprint_of(salt, action_id, AgentActionKind.TOOL_CALL, name, {"iban": MINE})
        for name in names
        for salt in (run_id, "", f"fingerprints of {run_id}")
    }


async def test_what_others_must_not_read_is_in_no_view_and_replay_has_it_all_the_same() -> None:
    bureau, bank = Bureau(), Bank()
    async with bureau.process(Teller, None, bank) as runs:
        waiting = await started(runs, Teller, MINE)
        assert triple(waiting.state) == WAITING
    run_id = waiting.state.id
    assert MINE not in stored(bureau.store)
    assert BACK not in stored(bureau.store)
    async with bureau.process(Teller, None, bank) as runs:
        (question,) = await runs.questions(run_id)
        assert MINE not in repr(question)
        await runs.approve(question.id)
        result = await resumed(runs, run_id)
        kept = await runs.result(run_id)
        told = [event async for event in runs.events(run_id)]
        assert await runs.verify(run_id) > 4
    assert result.output == Receipt(len(MINE), MINE)
    assert kept.output == {"number": len(MINE), "to": MINE}
    assert (bank.paid, bank.looked_up) == ([MINE], 1)
    assert MINE not in stored(bureau.store)
    assert MINE not in repr(told)
    assert sealed(await bureau.rows(run_id)) == [
        "run claimed",
        "run/tool:pay#1 before",
        "run/tool:pay#1 after",
        "run/tool:look_up#1 after",
        "run/tool:close#1 before",
        "run/result#1 after",
    ]


@pytest.mark.parametrize("fault", [StopBefore(2), StopAfter(2), StopBefore(3), StopAfter(3)], ids=str)
async def test_a_crash_betrays_nothing(fault: StopBefore | StopAfter) -> None:
    bureau, bank = Bureau(), Bank()
    async with bureau.process(Teller, None, bank, fault=fault) as runs:
        handle = await runs.start(Teller, MINE)
        with pytest.raises(BaseException, match="stopped"):
            await handle.result()
    assert MINE not in stored(bureau.store)
    bureau.clock.advance(60)
    async with bureau.process(Teller, None, bank) as runs:
        result = await resumed(runs, handle.id)
        for _ in range(4):
            if result.state.is_terminal:
                break
            (question,) = await runs.questions(handle.id)
            if not isinstance(question, AgentRecoveryRequest):
                await runs.approve(question.id)
            elif bank.paid:
                await runs.answer(handle.id, question.id, RecoveryDecision.DONE, result=BACK)
            else:
                await runs.answer(handle.id, question.id, RecoveryDecision.RETRY)
            result = await resumed(runs, handle.id)
    assert result.output == Receipt(len(MINE), MINE)
    assert bank.paid == [MINE]
    assert MINE not in stored(bureau.store)


async def test_another_key_opens_nothing_and_the_run_is_unharmed() -> None:
    bureau, bank = Bureau(), Bank()
    async with bureau.process(Teller, None, bank) as runs:
        run_id = (await started(runs, Teller, MINE)).state.id
    before = await bureau.rows(run_id)
    async with bureau.process(Teller, None, bank, MemorySealer(b"another"), has_sealer=False) as runs:
        for attempt in (
            *(runs.resume(run_id), runs.result(run_id), runs.questions(run_id)),
            *(runs.fork(run_id), runs.verify(run_id)),
        ):
            with pytest.raises(RecordSealError, match="key"):
                await attempt
        assert triple(await runs.get(run_id)) == WAITING
    assert await bureau.rows(run_id) == before
    async with bureau.process(Teller, None, bank) as runs:
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id)
        assert triple((await resumed(runs, run_id)).state) == COMPLETED


async def test_a_sealed_record_that_was_moved_elsewhere_does_not_open() -> None:
    bureau, bank = Bureau(), Bank()
    async with bureau.process(Teller, None, bank) as runs:
        run_id = (await started(runs, Teller, MINE)).state.id
    rows = [row for row in await bureau.rows(run_id) if isinstance(row.record, SealedRecord)]
    journal = bureau.store.tables.journals.find("default", run_id)
    assert journal is not None
    first, second = rows[1].seq - 1, rows[2].seq - 1
    kept = journal.rows
    kept[first] = replace(kept[first], record_text=kept[second].record_text)
    async with bureau.process(Teller, None, bank) as runs:
        with pytest.raises(CallerError, match="does not follow"):
            await runs.verify(run_id)
        interrupted = (await resumed(runs, run_id)).state
        assert interrupted.reason is AgentStateReason.RECOVERY_REQUIRES_HITL
        assert f"damaged at row {first + 1}" in str(interrupted.current_activity)
    assert bank.paid == [MINE]


async def test_an_application_without_a_sealer_is_told_at_start_up_what_it_cannot_keep() -> None:
    with pytest.raises(AgentPersistenceConfigurationError) as caught:
        async with Bureau().process(Teller, None, Bank(), has_sealer=False):
            pass
    problems = str(caught.value)
    for path in ("Teller -> Bank.pay", "Teller -> Bank.close", "Teller -> input", "Teller -> output"):
        assert f"{path}: replay needs what others must not read" in problems
    assert "pilotage[sealing]" in problems


@Pod
class Shelf:
    """A tool whose result is not shown, though nothing in it is marked as sensitive."""

    def __init__(self) -> None:
        self.looked_up = 0

    @agent_tool(effects=ToolEffects.read_only(), evidence=EvidenceCapture.NONE)
    async def look_up(self, account: int) -> str:
        """Look something up."""
        self.looked_up += 1
        return MINE


async def test_without_a_key_what_was_only_read_is_read_again() -> None:
    bureau, agent, shelf = Bureau(), hired(), Shelf()

    async def program(worker: Worker) -> object:
        seen = await shelf.look_up(1)
        await worker.desk.refund(Decimal(1))
        return len(seen)

    async with bureau.process(agent, program, shelf, has_sealer=False) as runs:
        waiting = await started(runs, agent)
        assert MINE not in stored(bureau.store)
        forked = await runs.fork(waiting.state.id)
    async with bureau.process(agent, program, shelf, has_sealer=False) as runs:
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        assert (await resumed(runs, waiting.state.id)).output == len(MINE)
        assert triple((await resumed(runs, forked.id)).state) == WAITING
    assert shelf.looked_up == 3
    assert MINE not in stored(bureau.store)


POLICY = StreamingRedactionPolicy((StreamingSensitivePattern("card", r"CARD-\d{4}"),))


async def test_what_a_model_says_under_a_redaction_policy_is_kept_sealed() -> None:
    bureau, agent = Bureau(), hired(redaction=POLICY)

    async def program(worker: Worker) -> object:
        said = (await asked(worker)).content
        await worker.desk.refund(Decimal(1))
        return said

    model = ScriptedModel([says("Your card is CARD-1234, keep it.")])
    async with bureau.process(agent, program, model=model) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
    async with bureau.process(agent, program, model=ScriptedModel([])) as runs:
        result = await resumed(runs, waiting.state.id)
        told = [event async for event in runs.events(waiting.state.id)]
    assert result.output == "Your card is CARD-1234, keep it."
    assert "CARD-1234" not in stored(bureau.store)
    assert "CARD-1234" not in repr(told)


@Agent(spec=AgentExecutionSpec(name="clerk at the bank", recovery=DURABLE))
class ModelTeller:
    """Pay what you are told."""

    def __init__(self, bank: Bank, model: IAgentModel) -> None:
        self.bank, self.model = bank, model


async def test_sensitive_arguments_that_a_model_chose_are_hidden_too() -> None:
    bureau, bank = Bureau(), Bank()
    model = ScriptedModel([calls("pay", iban=MINE), says("Paid.")])
    async with bureau.process(ModelTeller, None, bank, model=model) as runs:
        handle = await runs.start(ModelTeller, "pay")
        told = [event async for event in handle.events()]
        result = await handle.result()
    assert (result.output, bank.paid) == ("Paid.", [MINE])
    arguments = "".join(event.args_delta for event in told if isinstance(event, ToolCallArgsDeltaEvent))
    assert arguments == '{"iban":"[REDACTED]"}'
    assert MINE not in repr(told)
    assert MINE not in stored(bureau.store)


async def test_a_secret_in_a_result_is_in_no_record_and_the_program_never_has_it() -> None:
    bureau, bank, agent = Bureau(), Bank(), hired()
    seen: list[Session] = []

    async def program(worker: Worker) -> object:
        session = await bank.log_in("ada")
        seen.append(session)
        return await bank.stamp(session.user)

    async with bureau.process(agent, program, bank) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id)
        result = await resumed(runs, waiting.state.id)
    rows = await bureau.rows(waiting.state.id)
    assert sealed(rows) == []
    assert result.output == "ada"
    assert seen == [Session("ada", "[SECRET]")] * 2
    assert "TOKEN-4711" not in stored(bureau.store)


@Pod
class LostReply:
    """Opens a session, and loses the reply."""

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=UNGATED,
        reconcile="find",
    )
    async def log_in(self, user: str) -> Session:
        """Log in."""
        raise ConnectionError("the line broke")

    async def find(self, idempotency_key: str) -> Session:
        """Find the session that a login opened."""
        return Session("ada", "TOKEN-4711")


async def test_a_secret_in_a_result_that_was_found_out_never_reaches_the_program() -> None:
    bureau, bank, lost, agent = Bureau(), Bank(), LostReply(), hired()
    seen: list[Session] = []

    async def program(worker: Worker) -> object:
        seen.append(await lost.log_in("ada"))
        return await bank.stamp("x")

    async with bureau.process(agent, program, bank, lost) as runs:
        waiting = await started(runs, agent)
        (question,) = await runs.questions(waiting.state.id)
        await runs.approve(question.id, resume=False)
        await resumed(runs, waiting.state.id)
    assert seen == [Session("ada", "[SECRET]")] * 2


class Vault(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return "KEY-0815-KEY"


@Pod
class Careless:
    """Tools that let their key slip: into a result, into an error."""

    @agent_tool(approval=UNGATED)
    async def echo(self, key: Annotated[str, SecretField()] = "") -> str:
        """Say too much."""
        return f"used {key}"

    @agent_tool(approval=UNGATED)
    async def fail(self, key: Annotated[str, SecretField()] = "") -> str:
        """Complain too much."""
        raise ToolError(f"{key} was refused")


@pytest.mark.parametrize("tool", ["echo", "fail"])
@pytest.mark.parametrize("has_sealer", [True, False])
async def test_a_secret_that_a_tool_lets_slip_is_stored_nowhere(tool: str, has_sealer: bool) -> None:
    bureau, agent, careless = Bureau(), hired(), Careless()

    async def program(worker: Worker) -> object:
        try:
            return await getattr(careless, tool)()
        except ToolError as error:
            raise RuntimeError(f"it failed: {error}") from error

    async with bureau.process(agent, program, careless, Vault(), has_sealer=has_sealer) as runs:
        result = await started(runs, agent)
        told = [event async for event in runs.events(result.state.id)]
    assert triple(result.state) == (COMPLETED if tool == "echo" else FAILED)
    assert "KEY-0815-KEY" not in repr(told)
    assert "KEY-0815-KEY" not in stored(bureau.store)
    for row in await bureau.rows(result.state.id):
        record = row.record
        if isinstance(record, SealedRecord):
            place = SealContext(RunKey("default", result.state.id), row.action_id, row.stage, row.attempt)
            record = bureau.store.sealer.open(place, record)
        assert "KEY-0815-KEY" not in repr(record)
