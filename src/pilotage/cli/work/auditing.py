"""`pilotage audit heads, check`: the heads of journals, now and then."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from pilotage.cli.application import chosen_application, reading
from pilotage.cli.asked import Asked
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.screen import Screen
from pilotage.cli.words import line
from pilotage.errors import CallerError
from pilotage.runtime.heads import RunHead, count_fields, counts_of, differences, heads_in, heads_of
from pilotage.runtime.runs import AgentRuns


def _runs(asked: Asked) -> AbstractAsyncContextManager[AgentRuns]:
    """The runs of the application that is named, else of the database of the environment."""
    chosen = chosen_application(asked.app)
    return reading(chosen.app if chosen is not None else None)


async def write_heads(asked: Asked) -> int:
    """Write the heads of all runs, or of those of the tenant that is named."""
    screen = Screen.of_process()
    async with _runs(asked) as runs:
        found = await heads_of(runs.services, asked.tenant)
        counts = await counts_of(runs.services, asked.tenant)
    for head in found:
        screen.say_json(head.fields)
    for count in counts:
        screen.say_json(count_fields(count))
    return ExitCode.DONE


def _lines_of(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(f"{str(file)!r} cannot be read: {error}.") from error


async def check_heads(asked: Asked, file: Path) -> int:
    """Compare the database with heads that were written earlier."""
    screen = Screen.of_process()
    heads = list(heads_in(_lines_of(file)))
    async with _runs(asked) as runs:
        found = await differences(runs.services, heads)
    for each in found:
        screen.tell(line(each))
    number = sum(isinstance(head, RunHead) for head in heads)
    value = {"heads": number, "problems": list(found)}
    screen.answer(value, line(f"{number} heads, {len(found)} problems"), as_json=asked.as_json)
    return ExitCode.WRONG if found else ExitCode.DONE
