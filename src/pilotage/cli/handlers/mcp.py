"""`pilotage mcp list, diff, approve, call`: the tools of MCP servers, and what was accepted of them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pilotage.agent.tool_review import ReviewedTool, ToolReview, ToolStanding
from pilotage.agent.tools.definition_text import MOST_LINES, differences, visible
from pilotage.cli.application import application_to_serve
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.mcp_servers import BrokenServer, Server, with_servers
from pilotage.cli.options import CommandOptions
from pilotage.cli.prompt import prompt_for
from pilotage.cli.screen import Screen, ScreenLogHandler
from pilotage.cli.text import Line, TextSpan, Tone, columns, day_and_time, line, one_line
from pilotage.errors import CallerError
from pilotage.ids import SystemIds
from pilotage.jsonvalue import JsonObject, as_object, parsed_input, to_json_value
from pilotage.values import value

T = TypeVar("T")
_LEAST_DIGITS = 12
_TONES = {ToolStanding.ACCEPTED: Tone.GOOD, ToolStanding.GONE: Tone.QUIET}


@value
class ToolsToAccept:
    """The tools that a person accepts: by their names, or all; with the digest of the list that was seen."""

    tools: Sequence[str]
    everything: bool
    digest: str | None


@value
class Reviewed:
    """A server of the application, and the review of its tools."""

    name: str
    review: ToolReview


def list_tools(options: CommandOptions, servers: Sequence[str]) -> int:
    """List the tools of servers with their standing; return 1 if a server cannot be used."""
    found = _on_servers(options, servers, _reviewed)
    screen = Screen.of_process()
    known = [each for each in found if isinstance(each, Reviewed)]
    rows = [_row(each.name, tool) for each in known for tool in each.review.tools]
    lines = [*columns(rows, screen.width)] if rows else []
    lines += [line(TextSpan(f"{each.name} lists {each.review.digest}", Tone.QUIET)) for each in known]
    screen.answer(_payload(found), *lines, *_broken(found), as_json=options.as_json)
    return _code(found)


def show_differences(options: CommandOptions, servers: Sequence[str], *, is_whole: bool) -> int:
    """Show what differs from what was accepted; return 1 if a tool is off or a server cannot be used."""
    found = _on_servers(options, servers, _reviewed)
    screen = Screen.of_process()
    known = [each for each in found if isinstance(each, Reviewed)]
    lines: list[Line] = []
    for each in known:
        lines += _differences_of(each, options, most=None if is_whole else MOST_LINES)
    if known and not lines:
        lines = [line("all tools are accepted")]
    screen.answer(_payload(found, with_differences=True), *lines, *_broken(found), as_json=options.as_json)
    is_off = any(each.review.off for each in known)
    return ExitCode.WRONG if is_off else _code(found)


def approve(options: CommandOptions, server: str, wanted: ToolsToAccept) -> int:
    """Accept tools of a server as they are now.

    Raises:
        CallerError: no tool or no list is named, or the list is another one by now.
    """
    if bool(wanted.tools) is wanted.everything:
        raise CallerError(
            f"name the tools to accept, or --all for all that are off. See: pilotage mcp diff {server}."
        )

    async def work(found: Server) -> Reviewed:
        screen, review = Screen.of_process(), found.review
        chosen = _chosen(server, review, wanted)
        if wanted.digest is not None:
            _check_digest(server, review, wanted.digest)
        elif chosen and not await _is_agreed(screen, Reviewed(server, review), chosen, options):
            return Reviewed(server, ToolReview(server, (), review.digest))
        await found.accept(chosen, by=options.principal.id)
        return Reviewed(server, ToolReview(server, tuple(chosen), review.digest))

    (found,) = _on_servers(options, [server], work, only_looks=False)
    if isinstance(found, BrokenServer):
        raise found.problem
    names = [each.name for each in found.review.tools]
    words = f"accepted: {', '.join(map(visible, names))}" if names else "nothing was accepted"
    Screen.of_process().answer({"server": server, "accepted": names}, line(words), as_json=options.as_json)
    return ExitCode.DONE


def call(options: CommandOptions, server: str, tool: str, arguments: str) -> int:
    """Call an accepted tool outside of any run, and show its result.

    Raises:
        CallerError: the tool is off, or the arguments do not fit.
        ToolError: the call failed.
    """
    try:
        given = as_object(parsed_input(arguments))
    except (TypeError, ValueError) as error:
        raise CallerError(
            f'the arguments are no JSON object: {arguments!r}. Write: \'{{"name": "value"}}\'.'
        ) from error

    async def work(found: Server) -> object:
        return await found.call(tool, given, key=SystemIds().uid())

    (result,) = _on_servers(options, [server], work, only_looks=False)
    if isinstance(result, BrokenServer):
        raise result.problem
    screen, shown = Screen.of_process(), to_json_value(result)
    if options.as_json:
        screen.print_json(shown)
    else:
        screen.print_text(
            shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)
        )
    return ExitCode.DONE


def _on_servers(
    options: CommandOptions,
    names: Sequence[str],
    work: Callable[[Server], Awaitable[T]],
    *,
    only_looks: bool = True,
) -> list[T | BrokenServer]:
    app = application_to_serve(None, options.app)
    logging.basicConfig(handlers=[ScreenLogHandler(Screen.of_process())])
    return asyncio.run(with_servers(app, names, work, only_looks=only_looks))


async def _reviewed(server: Server) -> Reviewed:
    return Reviewed(server.name, server.review)


def _chosen(server: str, review: ToolReview, wanted: ToolsToAccept) -> Sequence[ReviewedTool]:
    """Return the tools to accept.

    Raises:
        CallerError: the server has no tool of a name.
    """
    if wanted.everything:
        return [each for each in review.off if each.can_be_accepted]
    found: list[ReviewedTool] = []
    for name in dict.fromkeys(wanted.tools):
        tool = review.named(name)
        if tool is None:
            known = ", ".join(visible(each.name) for each in review.tools) or "none"
            raise CallerError(f"MCP server {server!r} has no tool {name!r}. It lists: {known}.")
        found.append(tool)
    return [each for each in found if not each.is_offered]


def _check_digest(server: str, review: ToolReview, digest: str) -> None:
    prefix, _, digits = review.digest.partition(":")
    given = digest.removeprefix(f"{prefix}:")
    if len(given) < _LEAST_DIGITS or not digits.startswith(given):
        raise CallerError(
            f"MCP server {server!r} lists tools with the digest {review.digest}, and you have seen {digest}. Look "
            f"again: pilotage mcp diff {server}."
        )


async def _is_agreed(
    screen: Screen, server: Reviewed, chosen: Sequence[ReviewedTool], options: CommandOptions
) -> bool:
    """Show the tools to accept, and return whether the person agrees.

    Raises:
        CallerError: no person reads the screen.
    """
    prompt = prompt_for(screen, as_json=options.as_json)
    if prompt is None:
        raise CallerError(
            f"name the list that you have seen: --digest {server.review.digest}, from: pilotage mcp diff {server.name}."
        )
    for each in chosen:
        screen.message(*_differences_in(server.name, each, most=MOST_LINES))
    count = "this tool" if len(chosen) == 1 else f"these {len(chosen)} tools"
    typed = await prompt.text(f"accept {count}? yes / no (Ctrl-D: no) > ")
    return (typed or "").strip().lower() in {"y", "yes"}


def _row(server: str, tool: ReviewedTool) -> list[TextSpan]:
    text = tool.why or (tool.listed.description if tool.listed is not None else "")
    return [
        TextSpan(server, Tone.QUIET),
        TextSpan(one_line(visible(tool.name), 64), Tone.NAME),
        TextSpan(tool.standing.value, _TONES.get(tool.standing, Tone.ASKING)),
        TextSpan(one_line(visible(text))),
    ]


def _differences_of(server: Reviewed, options: CommandOptions, *, most: int | None) -> list[Line]:
    """Return what differs in the tools of a server that are off, and how to accept them."""
    lines: list[Line] = []
    for tool in server.review.tools:
        if not tool.is_offered:
            lines += _differences_in(server.name, tool, most=most)
    if server.review.off and not server.review.is_by_code:
        hints = options.hints(f"--app {options.app}" if options.app else "")
        words = ("mcp", "approve", server.name, "--all", "--digest", server.review.digest)
        lines.append(line("accept all: ", hints.command(*words)))
    return lines


def _differences_in(server: str, tool: ReviewedTool, *, most: int | None) -> list[Line]:
    before = "" if tool.pin is None or tool.pin.by is None else f", accepted by {visible(tool.pin.by)}"
    when = "" if tool.pin is None else f" on {day_and_time(tool.pin.accepted_at)}" if before else ""
    title = f"{server} {visible(tool.name)}: {tool.standing.value} ({tool.why}{before}{when})"
    accepted = None if tool.pin is None else tool.pin.definition
    changed = differences(accepted, tool.listed, most=most)
    return [line(TextSpan(title, Tone.STRONG)), *map(_changed_line, changed)]


def _changed_line(text: str) -> Line:
    tones = {"-": Tone.BAD, "+": Tone.GOOD}
    return line("  ", TextSpan(text, tones.get(text[:1], Tone.QUIET), hangs=True))


def _payload(found: Sequence[Reviewed | BrokenServer], *, with_differences: bool = False) -> JsonObject:
    servers = [each for each in found if isinstance(each, Reviewed)]
    return {
        "servers": [
            {
                "name": each.name,
                "digest": each.review.digest,
                "tools": [_tool(tool, with_differences=with_differences) for tool in each.review.tools],
            }
            for each in servers
        ],
        "problems": [
            {"server": each.name, "message": str(each.problem)}
            for each in found
            if isinstance(each, BrokenServer)
        ],
    }


def _tool(tool: ReviewedTool, *, with_differences: bool) -> JsonObject:
    pin, listed = tool.pin, tool.listed
    accepted_at = pin.accepted_at if pin is not None else None
    known: JsonObject = {
        "name": tool.name,
        "standing": tool.standing.value,
        "why": tool.why,
        "description": listed.description if listed is not None else None,
        "digest": listed.digest if listed is not None else None,
        "accepted_by": pin.by if pin is not None else None,
        "accepted_at": accepted_at.isoformat() if accepted_at is not None else None,
    }
    if not with_differences:
        return known
    old = None if pin is None else pin.definition
    return {**known, "differences": [] if tool.is_offered else differences(old, listed, most=None)}


def _broken(found: Sequence[object]) -> list[Line]:
    return [line(TextSpan(str(each.problem), Tone.BAD)) for each in found if isinstance(each, BrokenServer)]


def _code(found: Sequence[object]) -> ExitCode:
    return ExitCode.WRONG if any(isinstance(each, BrokenServer) for each in found) else ExitCode.DONE
