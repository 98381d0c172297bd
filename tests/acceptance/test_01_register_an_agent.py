"""Use case 1: an agent is registered in the container like any other component, and injected like one."""

from __future__ import annotations

from pilotage import Agent, Application, Pod, UseCase


@Pod
class Names:
    def nickname(self, name: str) -> str:
        return {"Ada": "Countess"}.get(name, name)


@Agent(name="greeter")
class Greeter:
    def __init__(self, names: Names) -> None:
        self.names = names

    async def execute(self, name: str) -> str:
        return f"Good day, {self.names.nickname(name)}."


@UseCase
class Reception:
    def __init__(self, greeter: Greeter) -> None:
        self.greeter = greeter


async def test_an_agent_is_made_with_what_its_constructor_asks_for_and_injected_where_it_is_wanted() -> None:
    assert Agent.get(Greeter).name == "greeter"
    assert Agent.get(Greeter).dependencies["names"].type_ is Names
    assert not Agent.exists(Names)
    async with Application("hotel").add(Names, Greeter, Reception).load_plugins() as app:
        greeter = app.get(Reception).greeter
        assert greeter is app.get(Greeter)
        assert greeter.names is app.get(Names)
        assert await greeter.execute("Ada") == "Good day, Countess."


async def test_made_by_hand_it_is_plain_business_logic() -> None:
    assert await Greeter(Names()).execute("Bob") == "Good day, Bob."
