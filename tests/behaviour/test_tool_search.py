"""Many tools of providers: the model searches them and calls what it found, through the same door as any other tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from pilotage import Agent, AgentRuns, AgentStatus, Application, Pod, agent_tool
from pilotage.agent import (
    AgentApprovalRequest,
    IAgentPermissions,
    IAgentToolProvider,
    Idempotency,
    PermissionRule,
    PermissionRules,
    PermissionVerdict,
    Switch,
    ToolApprovalRequirement,
    ToolEffects,
)
from pilotage.agent.tools import AgentToolCatalog, ToolOptions, described_tool
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime import ToolSearchSettings
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor
from pilotage.testing import MemoryStore, ScriptedModel, calls, crash_matrix, says

CITY: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PAID: Counter[str] = Counter()


class Many(IAgentToolProvider):
    """A server with many tools: look-ups, one that pays, and one with an argument that only it may see."""

    number, names = 60, ("files_read_file", "mail_sendMessage", "bank_pay_invoice", "weather_forecast")

    def __init__(self) -> None:
        tools = [self._tool(f"thing_{number}", f"Do thing number {number}.") for number in range(self.number)]
        tools += [
            self._tool("files_read_file", "Read the content of a file from the disk."),
            self._tool("mail_sendMessage", "Send a message to a person."),
            self._tool("weather_forecast", "Tell the weather of a city."),
            self._paying("bank_pay_invoice", "Pay an invoice."),
            self._tool("vault_open", "Open the vault.", SensitiveField(PII)),
        ]
        self._catalog = AgentToolCatalog(tools)

    def _tool(self, name: str, description: str, hidden: SensitiveField | None = None) -> Any:
        async def act(arguments: JsonObject) -> JsonValue:
            return {"tool": name, "city": arguments["city"]}

        secret = () if hidden is None else (SensitiveFieldDescriptor(("city",), hidden),)
        return described_tool(
            act,
            ToolOptions(
                name=name, description=description, effects=ToolEffects.read_only(), reads_untrusted=False
            ),
            owner=Many,
            input_schema=CITY,
            input_sensitive_fields=secret,
        )

    def _paying(self, name: str, description: str) -> Any:
        async def pay(arguments: JsonObject) -> JsonValue:
            PAID[str(arguments["city"])] += 1
            return "paid"

        options = ToolOptions(
            name=name,
            description=description,
            effects=ToolEffects.external_side_effect(),
            idempotency=Idempotency.NON_IDEMPOTENT,
            approval=ToolApprovalRequirement.REQUIRED,
            reads_untrusted=False,
        )
        return described_tool(pay, options, owner=Many, input_schema=CITY)

    @property
    def tool_catalog(self) -> AgentToolCatalog:
        return self._catalog


@Pod
class ManyTools(Many):
    pass


@Pod
class FewTools(Many):
    number = 3


@Agent(durable=True)
class Helper:
    """Help."""

    def __init__(self, server: Many) -> None:
        self.server = server

    @agent_tool(effects=ToolEffects.read_only())
    async def clock(self) -> str:
        """Tell the time."""
        return "noon"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


async def outcome(
    *turns: Any, add: Sequence[object] = (), server: type[Many] = ManyTools
) -> tuple[AgentStatus, ScriptedModel]:
    model = ScriptedModel([*turns, says("Done.")])
    app = Application("office").add(Helper, server, model, *MemoryStore().ports, *add).load_plugins()
    async with app:
        result = await (await app.get(AgentRuns).start(Helper, "go")).result()
        return result.status, model


def shown(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in each.tool_calling.tools] for each in model.requests if each.tool_calling]


def results(model: ScriptedModel) -> list[str]:
    return [str(message.content) for message in model.requests[-1].messages if message.role == "tool"]


def by_name(name: object, arguments: object) -> Any:
    return calls("call_tool", name=name, arguments=arguments)


async def test_of_many_tools_a_search_is_shown_and_stays_the_same() -> None:
    _, model = await outcome(
        calls("search_tools", query="forecast of the weather"),
        by_name("weather_forecast", {"city": "Bergen"}),
    )
    assert shown(model) == [["clock", "vault_open", "search_tools", "call_tool"]] * 3
    found, forecast = results(model)
    assert '"name":"weather_forecast"' in found
    assert '"properties":{"city":{"type":"string"}}' in found
    assert forecast == '{"city":"Bergen","tool":"weather_forecast"}'


async def test_of_few_tools_each_is_shown() -> None:
    _, model = await outcome(calls("weather_forecast", city="Bergen"), server=FewTools)
    assert "weather_forecast" in shown(model)[0]
    assert "search_tools" not in shown(model)[0]
    _, model = await outcome(server=FewTools, add=[ToolSearchSettings(above=7)])
    assert shown(model)[0][-2:] == ["search_tools", "call_tool"]
    _, model = await outcome(server=FewTools, add=[ToolSearchSettings(above=8)])
    assert "search_tools" not in shown(model)[0]


async def test_a_tool_that_is_called_by_its_own_name_is_called() -> None:
    _, model = await outcome(calls("weather_forecast", city="Bergen"))
    assert results(model) == ['{"city":"Bergen","tool":"weather_forecast"}']


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (
            "no_such_tool",
            {},
            "there is no tool 'no_such_tool'. On offer are: 'clock', 'vault_open', 'search_tools'",
        ),
        ("clock", {}, "there is no tool 'clock' that is called like this"),
        ("vault_open", {"city": "x"}, "there is no tool 'vault_open' that is called like this"),
        ("search_tools", {"query": "x"}, "there is no tool 'search_tools'"),
        ("call_tool", {"name": "weather_forecast"}, "there is no tool 'call_tool'"),
        (7, {}, "there is no tool 7"),
        ("weather_forecast", [], "arguments is no object"),
        ("weather_forecast", "{", "arguments is no object"),
        ("weather_forecast", {}, "city"),
        ("weather_forecast", {"city": 7}, "city"),
    ],
)
async def test_a_wrong_call_by_name_is_an_error_for_the_model(
    name: object, arguments: object, words: str
) -> None:
    status, model = await outcome(by_name(name, arguments))
    assert status is AgentStatus.COMPLETED
    assert words in results(model)[0]


async def test_arguments_as_a_text_are_read() -> None:
    _, model = await outcome(by_name("weather_forecast", '{"city": "Bergen"}'))
    assert results(model) == ['{"city":"Bergen","tool":"weather_forecast"}']


async def test_permissions_look_at_the_tool_that_is_called() -> None:
    deny = PermissionRules(
        [PermissionRule(PermissionVerdict.DENY, name="weather_forecast")], otherwise=PermissionVerdict.ALLOW
    )
    assert isinstance(deny, IAgentPermissions)
    _, model = await outcome(by_name("weather_forecast", {"city": "Bergen"}), add=[deny])
    assert "a rule says deny to 'weather_forecast'" in results(model)[0]


async def test_a_switch_stops_the_tool_that_is_called() -> None:
    store = MemoryStore()
    await store.switches.turn_off(Switch.tool("weather_forecast"), reason="an audit")
    status, _ = await outcome(by_name("weather_forecast", {"city": "Bergen"}), add=[store.switches])
    assert status is AgentStatus.INTERRUPTED


async def test_a_person_is_asked_about_the_tool_that_is_called() -> None:
    store = MemoryStore()
    model = ScriptedModel([by_name("bank_pay_invoice", {"city": "Bergen"}), says("Done.")])
    async with Application("office").add(Helper, ManyTools, model, *store.ports).load_plugins() as app:
        runs = app.get(AgentRuns)
        run = await runs.start(Helper, "go")
        assert (await run.result()).status is AgentStatus.INTERRUPTED
        (question,) = await runs.questions(run.id)
        assert isinstance(question, AgentApprovalRequest)
        assert "'bank_pay_invoice'" in question.prompt
        assert PAID == {}
        await runs.approve(question.id, resume=False)
        assert (await (await runs.resume(run.id)).result()).output == "Done."
    assert PAID == {"Bergen": 1}


async def test_a_call_by_name_happens_once_whenever_its_process_dies(second_stops: tuple[int, ...]) -> None:
    model = ScriptedModel(
        [
            calls("search_tools", query="pay an invoice"),
            by_name("bank_pay_invoice", {"city": "Bergen"}),
            says("Done."),
        ]
    )
    report = await crash_matrix(Helper, "go", model=model, add=[ManyTools], second_stops=second_stops)
    assert report.reference.output == "Done."
    report.assert_same_result()
    report.assert_no_repeated_effects()


async def test_a_run_that_searched_goes_on_where_there_are_few_tools_by_then() -> None:
    store = MemoryStore()
    turns = [
        calls("search_tools", query="pay"),
        by_name("weather_forecast", {"city": "Oslo"}),
        by_name("bank_pay_invoice", {"city": "Bergen"}),
        says("Done."),
    ]
    first = Application("office").add(Helper, ManyTools, ScriptedModel(turns), *store.ports).load_plugins()
    async with first as app:
        run = await app.get(AgentRuns).start(Helper, "go")
        assert (await run.result()).status is AgentStatus.INTERRUPTED
    second = Application("office").add(
        Helper, ManyTools, ScriptedModel(turns), ToolSearchSettings(above=500), *store.ports
    )
    async with second.load_plugins() as app:
        runs = app.get(AgentRuns)
        (question,) = await runs.questions(run.id)
        await runs.approve(question.id, resume=False)
        assert (await (await runs.resume(run.id)).result()).output == "Done."
        assert await runs.verify(run.id)
    assert PAID == {"Bergen": 1}


async def test_a_tool_of_the_name_of_the_search_is_refused() -> None:
    @Agent(durable=True)
    class Finder:
        """Find."""

        def __init__(self, server: Many) -> None:
            self.server = server

        @agent_tool(effects=ToolEffects.read_only())
        async def search_tools(self, query: str) -> str:
            """Find."""
            return query

    model = ScriptedModel([says("Done.")])
    async with (
        Application("office").add(Finder, ManyTools, model, *MemoryStore().ports).load_plugins() as app
    ):
        with pytest.raises(AgentDefinitionError, match="several tools called 'search_tools'"):
            await (await app.get(AgentRuns).start(Finder, "go")).result()
