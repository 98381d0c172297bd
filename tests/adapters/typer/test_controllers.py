"""Controllers as pods whose methods are commands of an application's own command line."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from pilotage import Agent, AgentYield, Application, Final, Pod, Token
from pilotage.adapters.typer import CliController, command, command_line
from pilotage.errors import CallerError, PodDefinitionError, ToolError


@Agent
class Poet:
    async def execute(self, topic: str) -> AsyncGenerator[AgentYield[str], None]:
        for word in ("Roses", "and", topic):
            yield Token(f"{word} ")
        yield Final(f"about {topic}")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@Pod
class Shelf:
    def __init__(self) -> None:
        self.books: list[str] = []


@CliController(group="poems")
class Poems:
    """Poems of all kinds."""

    def __init__(self, poet: Poet, shelf: Shelf) -> None:
        self.poet = poet
        self.shelf = shelf

    @command
    async def write(
        self,
        topic: str,
        times: Annotated[int, typer.Option(min=1, help="How often.")] = 1,
        loud: bool = False,
    ) -> None:
        """Write a poem."""
        for _ in range(times):
            async for item in self.poet.execute(topic):
                match item:
                    case Token(text):
                        typer.echo(text.upper() if loud else text, nl=False)
                    case Final(output):
                        typer.echo(f"[{output}]")

    @command(name="put-away")
    def shelve(self, title: str, colour: Colour = Colour.RED) -> int:
        """Put a poem away."""
        self.shelf.books.append(title)
        typer.echo(f"{title} in {colour}: {self.shelf.books}")
        return 7 if title == "seven" else 0


@CliController
class Top:
    @command
    async def lose_count(self) -> None:
        """Ask for what cannot be given."""
        raise CallerError("there is no such number.")

    @command(hidden=True)
    async def break_down(self) -> None:
        raise ToolError("it broke.")


def called(*words: str, pods: tuple[Any, ...] = (Poet, Shelf, Poems, Top)) -> Result:
    from pilotage.runtime.plugin import initialize

    app = Application("library").add(*pods)
    initialize(app)
    return CliRunner().invoke(command_line(app, help="A library."), words)


def test_a_command_streams_what_an_injected_agent_says() -> None:
    result = called("poems", "write", "rain", "--times", "2", "--loud")
    assert (result.exit_code, result.stdout) == (0, "ROSES AND RAIN [about rain]\n" * 2)


def test_a_plain_method_is_a_command_too_and_says_the_exit_code() -> None:
    assert called("poems", "put-away", "one").stdout == "one in red: ['one']\n"
    assert called("poems", "put-away", "seven", "--colour", "blue").exit_code == 7


def test_the_words_of_the_methods_are_the_help() -> None:
    top, group = called("--help"), called("poems", "--help")
    assert "A library." in top.stdout
    assert "Poems of all kinds." in top.stdout
    assert "lose-count" in top.stdout
    assert "break-down" not in top.stdout
    assert "Write a poem." in group.stdout
    assert "How often." in called("poems", "write", "--help").stdout


def test_arguments_are_checked_by_their_types() -> None:
    assert called("poems", "write", "rain", "--times", "0").exit_code == 2
    assert called("poems", "put-away", "one", "--colour", "green").exit_code == 2


def test_an_error_of_ours_is_a_sentence_and_an_exit_code() -> None:
    lost, broken = called("lose-count"), called("break-down")
    assert (lost.exit_code, lost.stderr) == (2, "there is no such number.\n")
    assert (broken.exit_code, broken.stderr) == (1, "it broke.\n")


def test_an_application_that_cannot_start_says_why() -> None:
    result = called("poems", "put-away", "one", pods=(Poet, Poems))
    assert result.exit_code == 1
    assert "Poems -> Shelf: nothing provides Shelf." in result.stderr


def test_a_single_command_keeps_its_name() -> None:
    @CliController
    class Alone:
        @command
        def only(self) -> None:
            typer.echo("here")

    assert called("only", pods=(Alone,)).stdout == "here\n"


def test_commands_of_a_base_class_come_along() -> None:
    @CliController(group="more")
    class MorePoems(Poems):
        @command
        def count(self) -> None:
            typer.echo(str(len(self.shelf.books)))

    assert called("more", "count", pods=(Poet, Shelf, MorePoems)).stdout == "0\n"
    assert called("more", "put-away", "x", pods=(Poet, Shelf, MorePoems)).exit_code == 0


def test_what_cannot_be_a_controller_is_refused_with_the_way_out() -> None:
    with pytest.raises(PodDefinitionError, match="Empty is a CliController without commands"):

        @CliController
        class Empty: ...

    with pytest.raises(PodDefinitionError, match="@command decorates a method"):
        command("name")  # type: ignore[type-var]

    @CliController
    class Untyped:
        @command
        def go(self, where) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(PodDefinitionError, match="Untyped.go: parameter 'where' is untyped. Write its type."):
        called("go", pods=(Untyped,))

    @CliController(name="one")
    class One:
        @command
        def go(self) -> None: ...

    @CliController(name="two")
    class Two:
        @command
        def go(self) -> None: ...

    with pytest.raises(PodDefinitionError, match="Two.go: there are two commands 'go'"):
        called("go", pods=(One, Two))
