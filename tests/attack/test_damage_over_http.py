"""Rows that somebody has changed in a database without a key: HTTP and programs get a damage that names the entry.

Without a key rows have no codes, so that only decoding them finds what is damaged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from pilotage import Application
from pilotage.agent import AgentSignalKind
from pilotage.agent.principal import LOCAL
from pilotage.errors import DamagedEntryError, PilotageError
from pilotage.runtime.runs import AgentRuns
from tests.adapters.sqlalchemy.test_damaged_rows import Filed, ended_run, waiting_run
from tests.attack.outsiders import is_raw, reader
from tests.attack.tally import TRIED

pytestmark = pytest.mark.attack("records")


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Filed]:
    made = Filed(tmp_path)
    yield made
    made.close()
    made.file.dispose()


NO_TEXTS = ("NULL", "x'ff00'", "'~\\uZZ'", "''", "'x'", "1e400", "'[]'", "'null'", "'NaN'", "'{}'")
NO_NUMBERS = ("NULL", "'x'", "x'00'", "-1", "0", "1e18", "9223372036854775807", "1.5")
DEEP = "'" + "[" * 20_000 + "'"
BESIDE = """'{"metadata":{"a":NaN},"transition":null,"reason":null}'"""

DAMAGES: dict[str, list[str]] = {
    "runs.agent_type": [*NO_TEXTS, DEEP],
    "runs.status": [*NO_TEXTS],
    "runs.state": [
        *NO_TEXTS,
        DEEP,
        BESIDE,
        """replace(state, '"metadata":{', '"metadata":[{')""",
        """replace(state, '"metadata":{', '"metadata":{"divergence":7,')""",
        """json_set(state, '$.metadata', 'x')""",
        """json_set(state, '$.metadata', json('{"x":1e999}'))""",
        """json_set(state, '$.reason', 'diverged', '$.metadata', json('{"divergence":{"action":1}}'))""",
        """json_set(state, '$.current_activity', 7)""",
        """json_set(state, '$.transition', 7)""",
        """json_remove(state, '$.metadata')""",
        """json_remove(state, '$.reason')""",
    ],
    "runs.created_at": [*NO_NUMBERS],
    "runs.updated_at": [*NO_NUMBERS],
    "runs.wake_at": [*NO_NUMBERS],
    "runs.awaits": ["x'ff00'", "7", "''"],
    "runs.head": [*NO_NUMBERS[1:]],
    "runs.epoch": [*NO_NUMBERS[1:]],
    "runs.digest": ["x'ff00'", "''", "'x'"],
    "runs.tenant_id": ["x'ff00'", "''"],
    "evidence.document": [
        *NO_TEXTS[1:],
        DEEP,
        """json_set(document, '$.payload', 7)""",
        """json_set(document, '$.summary', 7)""",
        """json_set(document, '$.sensitive_fields', 7)""",
        """json_set(document, '$.payload', json('{"x":1e999}'))""",
    ],
    "evidence.kind": [*NO_TEXTS[1:]],
    "evidence.created_at": [*NO_NUMBERS[1:]],
    "signals.payload": [*NO_TEXTS[1:], DEEP],
    "signals.kind": [*NO_TEXTS[1:]],
    "signals.created_at": [*NO_NUMBERS[1:]],
    "signals.consumed_at": [*NO_NUMBERS[1:]],
    "signals.end": [*NO_TEXTS[1:]],
    "outbox.payload": [*NO_TEXTS[1:], DEEP],
    "outbox.version": [*NO_NUMBERS[1:]],
    "outbox.created_at": [*NO_NUMBERS[1:]],
    "journal.action_id": [*NO_TEXTS[1:]],
    "journal.kind": [*NO_TEXTS],
    "journal.stage": [*NO_TEXTS[1:]],
    "journal.attempt": [*NO_NUMBERS[1:]],
    "journal.epoch": [*NO_NUMBERS[1:]],
    "journal.fingerprint": ["'x'", "''", "7", "x'ff00'"],
    "journal.idempotency": [*NO_TEXTS[1:]],
    "journal.number": [*NO_NUMBERS],
    "journal.turn": [*NO_NUMBERS],
    "journal.key_id": [*NO_TEXTS],
    "journal.record": [
        *NO_TEXTS,
        DEEP,
        "replace(record, '1', 'NaN')",
        "replace(record, '1', '1e999')",
        "replace(record, '{', '[')",
        "replace(record, ':', ':7,\"x\":')",
        "json_set(record, '$.result', 7)",
        "json_set(record, '$.asked', 7)",
        "json_set(record, '$.error', 7)",
        "json_set(record, '$.trust', 7)",
    ],
    "journal.view": [
        *NO_TEXTS,
        DEEP,
        "'+[]'",
        "'+'",
        "'=1.0.5.0;'",
        "'=-1.x.5.0;{}'",
        "'=99.0.5.1;{}'",
        "replace(view, '1', 'NaN')",
        "replace(view, '1', '1e999')",
        "replace(view, '{', '[')",
        "replace(view, ':', ':7,\"x\":')",
        "replace(view, '\"kind\"', '\"kimd\"')",
        "replace(view, 'events', 'evemts')",
        'replace(view, \'"first":1\', \'"first":"x"\')',
    ],
    "journal.digest": ["'x'", "''", "7", "x'ff00'"],
    "journal.salt": ["'x'", "''", "7", "x'ff00'"],
    "journal.erased": ["'x'", "''", "7", "x'ff00'"],
    "journal.created_at": [*NO_NUMBERS[1:]],
    "blobs.content": [*NO_TEXTS[1:], DEEP],
}
SOME = 12
CASES = [f"{where} = {value}" for where, values in DAMAGES.items() for value in values]


async def service_answers(app: Application, run_id: str) -> dict[str, str]:
    """What programs get: an answer, or a named error."""
    runs = app.get(AgentRuns)

    async def events() -> object:
        return [event async for event in runs.events(run_id, follow=False)]

    asked = {
        "get": lambda: runs.get(run_id),
        "list": lambda: runs.list(limit=200),
        "result": lambda: runs.result(run_id),
        "shown": lambda: runs.result(run_id, principal=LOCAL),
        "evidence": lambda: runs.evidence(run_id),
        "prompts": lambda: runs.prompts(run_id),
        "questions": lambda: runs.questions(run_id),
        "closed": lambda: runs.answered_questions(run_id),
        "answers": lambda: runs.waiting_answers(run_id),
        "claims": lambda: runs.claims(run_id),
        "events": events,
        "verify": lambda: runs.verify(run_id),
        "resume": lambda: runs.resume(run_id),
    }
    found: dict[str, str] = {}
    for name, ask in asked.items():
        try:
            found[f"{name} {run_id}"] = f"{name} {await ask()}"
        except PilotageError as error:
            found[f"{name} {run_id}"] = f"{name} {type(error).__name__}"
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            found[f"{name} {run_id}"] = f"error raw {name} {type(error).__name__}: {str(error)[:200]}"
    return found


class Files:
    """The files of a database that nobody has open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._content = {each: each.read_bytes() for each in folder.glob("pilotage.db*")}

    def put_back(self) -> None:
        for each in self._folder.glob("pilotage.db*"):
            each.unlink()
        for each, content in self._content.items():
            each.write_bytes(content)


async def test_no_damage_of_a_database_without_a_key_is_an_internal_error(
    filed: Filed, tmp_path: Path, record_property: Callable[[str, object], None], *, exhaustive: bool
) -> None:
    ended, waiting = await ended_run(filed), await waiting_run(filed)
    async with filed.process() as app:
        await app.get(AgentRuns).signal(waiting, AgentSignalKind.PAUSE, {"reason": "later"})
    filed.close()
    filed.file.dispose()
    files, broken, settled = Files(tmp_path), list[str](), frozenset((ended, waiting))
    cases = CASES if exhaustive else CASES[:: len(CASES) // SOME]
    record_property(TRIED, len(cases))
    for case in cases:
        where, _, value = case.partition(" = ")
        table, _, column = where.partition(".")
        with suppress(SQLAlchemyError):  # the schema refuses some of them
            filed.damage(f'UPDATE pilotage_{table} SET "{column}" = {value}')  # noqa: S608
        async with filed.process() as app, reader(app, settled=settled) as http:
            answers = await http.answers([ended, waiting])
            for run_id in (ended, waiting):
                answers |= await service_answers(app, run_id)
        broken += [f"{case[:120]}: {name} {said[:200]}" for name, said in answers.items() if is_raw(said)]
        filed.close()
        filed.file.dispose()
        files.put_back()
    assert not broken, f"{len(broken)}\n" + "\n".join(broken[:60])


async def test_a_damaged_run_is_named_in_the_list_and_hides_no_other(filed: Filed) -> None:
    run_id, other = await ended_run(filed), await waiting_run(filed)
    filed.damage(f"UPDATE pilotage_runs SET agent_type = NULL WHERE run_id = '{run_id}'")  # noqa: S608
    async with filed.process() as app, reader(app, settled=frozenset()) as http:
        answers = await http.answers([run_id])
        asked = await app.get(AgentRuns).open_questions()
        pages = [await app.get(AgentRuns).list(limit=1)]
        pages.append(await app.get(AgentRuns).list(limit=1, after=pages[0].cursor))
        with pytest.raises(DamagedEntryError, match=run_id):
            pages[1].whole()
    for path in (f"GET /runs/{run_id}", f"GET /runs/{run_id}/result"):
        assert answers[path].startswith("error 409 ")
        assert "damaged_entry" in answers[path]
        assert run_id in answers[path]
        assert "column 'agent_type'" in answers[path]
    status, _, body = answers["GET /runs?limit=200"].partition(" ")
    listed = json.loads(body)
    assert (status, [each["id"] for each in listed["runs"]]) == ("200", [other])
    (damaged,) = listed["damaged"]
    assert damaged["id"] == run_id
    assert "column 'agent_type'" in damaged["problem"]
    assert [each.agent_state_id for each in asked.questions] == [other]
    assert [[each.id for each in (*page.runs, *page.damaged)] for page in pages] == [[other], [run_id]]
    assert pages[0].whole() == pages[0].runs
    assert pages[1].cursor is None
