"""Attacks on stored records by somebody who can write to the database and does not have the key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Connection, create_engine, text

from pilotage.adapters.fastapi import BearerTokens, agent_routes
from pilotage.adapters.sqlalchemy.columns import from_packed, to_packed
from pilotage.adapters.sqlalchemy.supported import database_url
from pilotage.adapters.sqlalchemy.tables import PLACES
from pilotage.agent import RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignalEnd
from pilotage.errors import CallerError, PilotageError
from pilotage.runtime import AgentRuns
from pilotage.runtime.journal.chain import NO_HEAD, UNBOUND, Chain, ChainKey, chained
from tests.adapters.sqlalchemy.databases import BACKENDS, SCHEMA, need_server
from tests.golden.place import Place
from tests.golden.stored import Golden

pytestmark = pytest.mark.attack("records")

VERSION = "0.1.1"


@pytest.fixture(params=BACKENDS)
def kind(request: pytest.FixtureRequest, exhaustive: bool) -> str:
    name = str(request.param)
    if name == "postgresql":
        if not exhaustive:
            pytest.skip("make attack tries the server too")
        need_server()
    return name


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[Place]:
    with Golden(VERSION, kind).copy(tmp_path, f"{SCHEMA}_records") as found:
        yield found


@contextmanager
def attacker(place: Place) -> Iterator[Connection]:
    """A connection of somebody who knows the tables, in one transaction."""
    engine = create_engine(database_url(place.settings.url))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def run_named(kind: str, case: str) -> str:
    return str(Golden(VERSION, kind).runs()[case]["id"])


def position(connection: Connection, run_id: str) -> int:
    return int(
        connection.execute(
            text("SELECT position FROM pilotage_runs WHERE run_id = :r"), {"r": run_id}
        ).scalar_one()
    )


def cut_tail(connection: Connection, run_id: str, count: int, *, moves_head: bool) -> None:
    """Delete the last rows of a run; with `moves_head` its head says that they never were."""
    number = position(connection, run_id)
    head = connection.execute(
        text("SELECT max(place) FROM pilotage_journal WHERE run = :n"), {"n": number}
    ).scalar_one()
    connection.execute(
        text("DELETE FROM pilotage_journal WHERE run = :n AND place > :p"), {"n": number, "p": head - count}
    )
    if moves_head:
        last = connection.execute(
            text("SELECT digest FROM pilotage_journal WHERE place = :p"), {"p": head - count}
        ).scalar_one()
        connection.execute(
            text("UPDATE pilotage_runs SET head = :h, digest = :d WHERE run_id = :r"),
            {"h": head - count - number * PLACES, "d": from_packed(bytes(last)), "r": run_id},
        )


async def assert_found(place: Place, run_id: str, *words: str) -> None:
    """`verify` names the damage, and reading it is an error of the caller's, never a raw one."""
    async with place.process() as app:
        with pytest.raises(CallerError) as caught:
            await app.get(AgentRuns).verify(run_id)
        assert any(word in str(caught.value) for word in words), str(caught.value)


async def resumed(runs: AgentRuns, run_id: str) -> RunResult:
    return await (await runs.resume(run_id)).result()


@pytest.mark.parametrize("moves_head", [False, True])
@pytest.mark.parametrize("case", ["completed", "modified", "approval", "second-turn"])
async def test_a_cut_tail_is_found(place: Place, kind: str, case: str, *, moves_head: bool) -> None:
    run_id = run_named(kind, case)
    with attacker(place) as connection:
        cut_tail(connection, run_id, 2, moves_head=moves_head)
    await assert_found(place, run_id, "missing", "not stored as it was written")


@pytest.mark.parametrize("moves_head", [False, True])
async def test_a_run_with_a_cut_tail_does_not_act_again(place: Place, kind: str, *, moves_head: bool) -> None:
    """The rows of a call that took place are cut off, and the state says that it waits as before."""
    run_id, before = run_named(kind, "modified"), place.ledger.effects()
    with attacker(place) as connection:
        # From the row on that says that the call has begun.
        cut_tail(connection, run_id, 7, moves_head=moves_head)
        connection.execute(
            text("UPDATE pilotage_runs SET status = 'interrupted', ended = FALSE WHERE run_id = :r"),
            {"r": run_id},
        )
    async with place.process() as app:
        with pytest.raises(PilotageError):
            await resumed(app.get(AgentRuns), run_id)
    assert place.ledger.effects() == before


async def test_journals_of_two_runs_cannot_be_swapped(place: Place, kind: str) -> None:
    one, other = run_named(kind, "approval"), run_named(kind, "answered")
    with attacker(place) as connection:
        first, second = position(connection, one), position(connection, other)
        for was, then in ((first, 0), (second, first), (0, second)):
            connection.execute(
                text(
                    "UPDATE pilotage_journal SET run = :t, place = place - run * :p + :t * :p WHERE run = :w"
                ),
                {"t": then, "w": was, "p": PLACES},
            )
        found = connection.execute(
            text("SELECT run_id, head, epoch, digest FROM pilotage_runs WHERE run_id IN (:a, :b)"),
            {"a": one, "b": other},
        ).all()
        for mine, its in zip(found, reversed(found), strict=True):
            connection.execute(
                text("UPDATE pilotage_runs SET head = :h, epoch = :e, digest = :d WHERE run_id = :r"),
                {"r": mine.run_id, "h": its.head, "e": its.epoch, "d": its.digest},
            )
    for run_id in (one, other):
        await assert_found(place, run_id, "row 1", "not stored as it was written")


def test_rows_are_bound_to_tenant_run_and_definition() -> None:
    """Also without a key: the chain of one run is not that of any other."""
    from pilotage.runtime.journal.chain import first_broken
    from tests.unit.runtime.journal.test_chain import JOURNAL

    own = Chain.of(RunKey("acme", "run-1"), "clerk")
    rows, digest = [], NO_HEAD.digest
    for row in JOURNAL:
        rows.append(chained(row, digest, own))
        digest = rows[-1].digest
    assert first_broken(rows, own) is None
    for other in (
        Chain.of(RunKey("other", "run-1"), "clerk"),
        Chain.of(RunKey("acme", "run-2"), "clerk"),
        Chain.of(RunKey("acme", "run-1"), "banker"),
        Chain.of(RunKey("acme", "run-1"), "clerk", (ChainKey.of(b"key"),)),
    ):
        assert (first_broken(rows, other) is None) is (other.binding == own.binding)


@pytest.mark.parametrize("version", ["first", "bound"])
async def test_a_rewrite_with_recomputed_digests_is_found(place: Place, kind: str, version: str) -> None:
    """The attacker knows how digests are made, and does not have the key."""
    run_id = run_named(kind, "completed")
    async with place.process() as app:
        runs = app.get(AgentRuns)
        state = await runs.get(run_id)
        run = RunKey(state.tenant_id, run_id)
        rows = [row async for row in runs.services.journal.read(run)]
    chain = UNBOUND if version == "first" else Chain.of(run, state.agent_type)
    digest, forged = NO_HEAD.digest, []
    for row in rows:
        forged.append(chained(row, digest, chain))
        digest = forged[-1].digest
    with attacker(place) as connection:
        number = position(connection, run_id)
        for row in forged:
            connection.execute(
                text("UPDATE pilotage_journal SET digest = :d WHERE place = :p"),
                {"d": to_packed(row.digest), "p": number * PLACES + row.seq},
            )
        connection.execute(
            text("UPDATE pilotage_runs SET digest = :d WHERE run_id = :r"), {"d": digest, "r": run_id}
        )
    await assert_found(place, run_id, "not stored as it was written")


async def test_a_row_that_is_marked_as_erased_is_found(place: Place, kind: str) -> None:
    from pilotage.runtime.journal.chain import payload_digest

    run_id = run_named(kind, "completed")
    async with place.process() as app:
        runs = app.get(AgentRuns)
        run = RunKey((await runs.get(run_id)).tenant_id, run_id)
        row = [row async for row in runs.services.journal.read(run)][2]
    with attacker(place) as connection:
        connection.execute(
            text(
                "UPDATE pilotage_journal SET record = NULL, view = NULL, salt = :s, erased = :e WHERE place = :p"
            ),
            {
                "s": to_packed(""),
                "e": to_packed(payload_digest(row.texts, row.salt, row.events)),
                "p": position(connection, run_id) * PLACES + row.seq,
            },
        )
    await assert_found(place, run_id, "row 3")


FORGED_STATES = {
    "status": "UPDATE pilotage_runs SET status = 'failed' WHERE run_id = :r",
    "tenant": "UPDATE pilotage_runs SET tenant_id = 'other' WHERE run_id = :r",
    "agent type": "UPDATE pilotage_runs SET agent_type = 'banker' WHERE run_id = :r",
    "updated": "UPDATE pilotage_runs SET updated_at = created_at WHERE run_id = :r",
    "created": "UPDATE pilotage_runs SET created_at = updated_at WHERE run_id = :r",
    "no code": "UPDATE pilotage_runs SET status = 'failed', code = NULL WHERE run_id = :r",
    "activity": "UPDATE pilotage_runs SET state = replace(state, 'current_activity', 'input_ref') WHERE run_id = :r",
    "time of a row": "UPDATE pilotage_journal SET created_at = (SELECT min(created_at) FROM pilotage_journal) "
    "WHERE place = (SELECT position * 4294967296 + 5 FROM pilotage_runs WHERE run_id = :r)",
    "fact": "UPDATE pilotage_outbox SET payload = payload || ' ' WHERE run_id = :r",
    "a fact less": "DELETE FROM pilotage_outbox WHERE run_id = :r",
    "conversation": "UPDATE pilotage_runs SET conversation_id = 'other talk' WHERE run_id = :r",
}


@pytest.mark.parametrize("what", FORGED_STATES)
async def test_a_forged_state_is_found(place: Place, kind: str, what: str) -> None:
    run_id = run_named(kind, "completed")
    with attacker(place) as connection:
        changed = connection.execute(text(FORGED_STATES[what]), {"r": run_id})
        assert changed.rowcount > 0
    await assert_found(place, run_id, "not stored as", "row 5", "are stored")


FORGED_SIGNALS = {
    "end": "UPDATE pilotage_signals SET \"end\" = 'superseded' WHERE run_id = :r",
    "not consumed": 'UPDATE pilotage_signals SET consumed_at = NULL, "end" = NULL, end_code = NULL WHERE run_id = :r',
    "deleted": "DELETE FROM pilotage_signals WHERE run_id = :r",
    "author": 'UPDATE pilotage_signals SET payload = \'{"decision":"approve"}\' WHERE run_id = :r',
}


@pytest.mark.parametrize("what", FORGED_SIGNALS)
async def test_the_consumption_of_signals_is_covered(place: Place, kind: str, what: str) -> None:
    run_id = run_named(kind, "modified")
    with attacker(place) as connection:
        assert connection.execute(text(FORGED_SIGNALS[what]), {"r": run_id}).rowcount > 0
    await assert_found(place, run_id, "signal")


@pytest.mark.parametrize("is_counted", [False, True])
async def test_an_answer_that_was_put_in_by_hand_is_refused(
    place: Place, kind: str, *, is_counted: bool
) -> None:
    run_id, before = run_named(kind, "approval"), place.ledger.effects()
    async with place.process() as app:
        (question,) = await app.get(AgentRuns).questions(run_id)
    payload = {"request_id": question.id, "decision": "approve", "decided_by": "cfo"}
    with attacker(place) as connection:
        values: dict[str, Any] = {"r": run_id, "p": json.dumps(payload)}
        connection.execute(
            text(
                "INSERT INTO pilotage_signals (tenant_id, run_id, number, signal_id, kind, payload, created_at) "
                "SELECT tenant_id, run_id, 1, 'forged', 'approval_decision', :p, created_at FROM pilotage_runs "
                "WHERE run_id = :r"
            ),
            values,
        )
        if is_counted:
            connection.execute(
                text("UPDATE pilotage_runs SET last_signal = 1 WHERE run_id = :r"), {"r": run_id}
            )
    await assert_found(place, run_id, "forged")
    async with place.process() as app:
        runs = app.get(AgentRuns)
        result = await resumed(runs, run_id)
        assert result.status == "interrupted"
        (refused,) = [each for each in await runs.evidence(run_id) if "forged" in each.id]
        assert refused.payload["end"] == AgentSignalEnd.REFUSED.value
        assert len(await runs.questions(run_id)) == 1
    assert place.ledger.effects() == before


async def test_an_untouched_database_passes(place: Place, kind: str) -> None:
    async with place.process() as app:
        runs = app.get(AgentRuns)
        for case, read in Golden(VERSION, kind).runs().items():
            assert await runs.verify(str(read["id"])) > 0, case


UNREADABLE = {
    "state": "UPDATE pilotage_runs SET state = '{' WHERE run_id = :r",
    "status": "UPDATE pilotage_runs SET status = 'paid' WHERE run_id = :r",
    "record": "UPDATE pilotage_journal SET record = '{' WHERE run = (SELECT position FROM pilotage_runs WHERE run_id = :r)",
    "evidence": "UPDATE pilotage_evidence SET document = '[]' WHERE run_id = :r",
    "signal": "UPDATE pilotage_signals SET kind = 'wish' WHERE run_id = :r",
}
ROUTES = ("", "/result", "/evidence", "/questions", "/verification")


@pytest.mark.parametrize("what", UNREADABLE)
async def test_a_damaged_entry_is_named_over_http(place: Place, kind: str, what: str) -> None:
    run_id = run_named(kind, "condensed" if what == "evidence" else "modified")
    with attacker(place) as connection:
        assert connection.execute(text(UNREADABLE[what]), {"r": run_id}).rowcount > 0
    async with place.process() as app:
        api = FastAPI()
        people = BearerTokens({"token-of-ada-0123456789": Principal("ada")})
        api.include_router(agent_routes(app, principal=people))
        transport = httpx.ASGITransport(app=api)
        headers = {"authorization": "Bearer token-of-ada-0123456789"}
        async with httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers) as client:
            answers = [await client.get(f"/runs/{run_id}{route}") for route in ROUTES]
            answers.append(await client.get("/runs"))
    assert {answer.status_code for answer in answers} <= {200, 409}, [each.text for each in answers]
    refused = [answer.json() for answer in answers if answer.status_code == 409]
    assert refused
    assert all(problem["code"] in ("damaged_entry", "damaged_record") for problem in refused), refused
    assert any(run_id in problem["detail"] or "'" in problem["detail"] for problem in refused)
