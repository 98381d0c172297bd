"""`pilotage db, audit, memory`: the tables of a database, the heads of its journals, the memory of its users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pilotage.adapters.sqlalchemy.errors import DatabaseSchemaError, DatabaseStartError
from pilotage.adapters.sqlalchemy.settings import UPGRADES_AT_START, DatabaseSettings, shown, sqlite_file
from pilotage.agent.ports.memory import MOST_RECALLED, IAgentMemory, MemoryItem, MemoryKind, MemoryScope
from pilotage.cli.application import Session, chosen_application, memory_of
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.options import CommandOptions
from pilotage.cli.screen import Screen, print_error
from pilotage.cli.text import Line, TextSpan, Tone, ago, columns, day_and_time, line, one_line
from pilotage.cli.timeline import count_words
from pilotage.errors import CallerError
from pilotage.ids import SystemClock
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.heads import RunHead, count_fields, counts_of, differences, heads_in, heads_of
from pilotage.values import value


def with_database(command: Callable[[Any], int], url: str | None) -> int:
    """Call a command with an open database; return 0 if all is well, 1 if the tables are not up to date.

    Raises:
        CallerError: the extra is not installed.
        DatabaseStartError: the database cannot be used.
    """
    if find_spec("sqlalchemy") is None:
        raise CallerError('this command needs an extra: pip install "pilotage[sqlalchemy]".')
    settings = DatabaseSettings.from_environment()
    with opened(replace(settings, url=url or settings.url), makes_file=command is upgrade) as database:
        return command(database)


def upgrade(database: Any) -> int:
    """Upgrade the tables."""
    from pilotage.adapters.sqlalchemy.store import VERSION, upgrade_schema  # noqa: PLC0415 - loads SQLAlchemy

    found = upgrade_schema(database)
    if found == VERSION:
        return _say(f"{database.name}: tables of version {VERSION}, nothing to do")
    return _say(f"{database.name}: upgraded from {found or 'nothing'} to version {VERSION}")


def current(database: Any) -> int:
    """Show the version of the tables."""
    from pilotage.adapters.sqlalchemy.store import current_version  # noqa: PLC0415 - loads SQLAlchemy

    with database.engines.reading.connect() as connection:
        return _say(f"{database.name}: {current_version(connection) or 'no tables'}")


def check(database: Any) -> int:
    """Show whether an application can use the database as it is."""
    try:
        return _say(checked(database))
    except DatabaseSchemaError as error:
        print_error(str(error))
        if error.found is None or error.found < error.expected:
            print_error(
                f"An application upgrades older tables by itself when it starts (serve, worker, run), unless "
                f"{UPGRADES_AT_START} is no."
            )
    except DatabaseStartError as error:
        print_error(str(error))
    return ExitCode.WRONG


def checked(database: Any) -> str:
    """Return the state of a database that an application can use.

    Raises:
        DatabaseStartError: an application cannot use it as it is.
    """
    from pilotage.adapters.sqlalchemy.store import VERSION, check_schema  # noqa: PLC0415 - loads SQLAlchemy

    may_lose = database.settings.may_lose_commits_on_power_failure
    database.engines.check_durability(may_lose_commits=may_lose)
    check_schema(database)
    return f"{database.name}: tables of version {VERSION}, durable"


@contextmanager
def opened(settings: DatabaseSettings, *, makes_file: bool = False) -> Generator[Any]:
    """Open a database for a command. A missing SQLite file is an error, unless the command makes it.

    Raises:
        DatabaseStartError: it cannot be used.
    """
    file = sqlite_file(settings.url)
    if file is not None and not makes_file and not file.exists():
        raise DatabaseStartError(
            f"{shown(settings.url)} does not exist. Run: pilotage db upgrade. An application makes it by itself "
            f"when it starts (serve, worker, run), unless {UPGRADES_AT_START} is no."
        )
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415 - slow to load

    from pilotage.adapters.sqlalchemy.database import Database  # noqa: PLC0415
    from pilotage.adapters.sqlalchemy.store import unreachable  # noqa: PLC0415

    database = Database(settings)
    try:
        yield database
    except DBAPIError as error:
        raise unreachable(database, error) from error
    finally:
        database.close()


def _say(words: str) -> int:
    Screen.of_process().print(line(words))
    return ExitCode.DONE


async def write_heads(session: Session) -> int:
    """Write the heads of all runs, or of those of the tenant that is named."""
    services, tenant = session.runs.services, session.options.tenant
    for head in await heads_of(services, tenant):
        session.screen.print_json(head.fields)
    for count in await counts_of(services, tenant):
        session.screen.print_json(count_fields(count))
    return ExitCode.DONE


async def check_heads(session: Session, file: Path) -> int:
    """Compare the database with heads that were written earlier."""
    heads = list(heads_in(_lines_of(file)))
    found = await differences(session.runs.services, heads)
    for each in found:
        session.screen.message(line(each))
    number = sum(isinstance(head, RunHead) for head in heads)
    words = line(f"{count_words(number, 'head')}, {count_words(len(found), 'problem')}")
    value = {"heads": number, "problems": list(found)}
    session.screen.answer(value, words, as_json=session.options.as_json)
    return ExitCode.WRONG if found else ExitCode.DONE


def _lines_of(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(f"{str(file)!r} cannot be read: {error}.") from error


@value
class MemoryOptions:
    """The options of the memory commands: the shared ones, and whose memory is meant."""

    shared: CommandOptions
    user: str | None = None
    agent: str | None = None

    @property
    def scope(self) -> MemoryScope:
        """The memory of the user, by default of the principal that the command acts for."""
        principal = self.shared.principal
        return MemoryScope(principal.tenant, self.user or principal.id, self.agent)


def with_memory(
    options: MemoryOptions, work: Callable[[IAgentMemory], Awaitable[int]], *, is_changed: bool = False
) -> int:
    """Call a function with the memory of the named application, else of the database of the environment."""
    chosen = chosen_application(options.shared.app)

    async def call() -> int:
        async with memory_of(chosen.app if chosen else None, is_changed=is_changed) as memory:
            return await work(memory)

    return asyncio.run(call())


def list_memory(options: MemoryOptions, query: str, kind: MemoryKind | None, limit: int) -> int:
    """List the items that fit a query, best first; without one the latest."""

    async def work(memory: IAgentMemory) -> int:
        items = await memory.recall(options.scope, query, limit=min(limit, MOST_RECALLED), kind=kind)
        screen = Screen.of_process()
        lines = _item_lines(items, screen.width) or [line(f"nothing is stored for {_scope_words(options)}")]
        screen.answer([to_json_value(each) for each in items], *lines, as_json=options.shared.as_json)
        return ExitCode.DONE

    return with_memory(options, work)


def show_memory(options: MemoryOptions, item_id: str) -> int:
    """Show one item."""

    async def work(memory: IAgentMemory) -> int:
        item = _found(await memory.export(options.scope), item_id, options)
        screen = Screen.of_process()
        screen.answer(item, *_item_page(item), as_json=options.shared.as_json)
        return ExitCode.DONE

    return with_memory(options, work)


def export_memory(options: MemoryOptions) -> int:
    """Write everything that is stored for a user, oldest first, a line of JSON for each item."""

    async def work(memory: IAgentMemory) -> int:
        screen = Screen.of_process()
        for each in await memory.export(options.scope):
            screen.print_json(each)
        return ExitCode.DONE

    return with_memory(options, work)


def forget_memory(options: MemoryOptions, item_id: str | None, *, is_everything: bool) -> int:
    """Delete one item, or everything that is stored for a user.

    Raises:
        CallerError: neither an item nor everything is named, or both are.
    """
    if (item_id is None) is not is_everything:
        raise CallerError(f"name the item to forget, or --all for everything of {_scope_words(options)}.")

    async def work(memory: IAgentMemory) -> int:
        scope = options.scope
        one = None if item_id is None else _found(await memory.export(scope), item_id, options).id
        count = await memory.forget(scope, one)
        words = f"{count_words(count, 'item')} of {_scope_words(options)} forgotten"
        Screen.of_process().answer({"forgotten": count}, line(words), as_json=options.shared.as_json)
        return ExitCode.DONE

    return with_memory(options, work, is_changed=True)


def _scope_words(options: MemoryOptions) -> str:
    scope = options.scope
    agent = f" and agent {scope.agent_type!r}" if scope.agent_type else ""
    return f"user {scope.user_id!r}{agent} in tenant {scope.tenant_id!r}"


def _found(items: Sequence[MemoryItem], text: str, options: MemoryOptions) -> MemoryItem:
    """Return the item with this id, or the only one whose id begins so."""
    named = [each for each in items if each.id == text] or [
        each for each in items if text and each.id.startswith(text)
    ]
    if len(named) == 1:
        return named[0]
    if not named:
        raise CallerError(f"there is no item {text!r} of {_scope_words(options)}. See: pilotage memory list.")
    ids = ", ".join(each.id for each in named[:5])
    raise CallerError(f"{len(named)} items begin with {text!r}: {ids}. Give more of the id.")


def _item_lines(items: Sequence[MemoryItem], room: int | None) -> list[Line]:
    now = SystemClock().now()
    rows = [
        [
            TextSpan(one_line(each.id, 40), Tone.NAME),
            TextSpan(each.kind.value),
            TextSpan(ago(each.created_at, now), Tone.QUIET),
            TextSpan(one_line(each.text)),
        ]
        for each in items
    ]
    return columns(rows, room)


def _item_page(item: MemoryItem) -> list[Line]:
    label = item.label
    origins = f", from {', '.join(sorted(label.origins))}" if label.origins else ""
    facts = [
        ("item", TextSpan(item.id, Tone.NAME)),
        ("kind", TextSpan(item.kind.value)),
        ("stored", TextSpan(day_and_time(item.created_at))),
        ("trust", TextSpan(f"{label.integrity.value}, {label.confidentiality.value}{origins}")),
        *((one_line(name, 40), TextSpan(one_line(str(each)))) for name, each in item.metadata.items()),
    ]
    lines = columns([[TextSpan(name, Tone.QUIET), each] for name, each in facts if each.text])
    return [*lines, (), *(line(each) for each in item.text.splitlines())]
