"""Tools of catalogs: offered with the agent's own, through the same door, refused at start-up where they do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.behaviour.bureau import Bureau, resumed, started

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    AgentToolRuntimeContext,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentApprovalRequest,
    AgentEvidenceKind,
    AgentRecoveryRequest,
    IAgentToolProvider,
    RecoveryDecision,
    ToolApprovalRequirement,
    ToolCallingSpec,
)
from pilotage.agent.tools import (
    AgentToolCatalog,
    AgentToolDescriptor,
    DataAccess,
    ToolOptions,
    described_tool,
    discover_agent_tools,
)
from pilotage.errors import AgentDefinitionError, ApplicationStartError, CallerError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.fields import PII, SensitiveField, SensitiveFieldDescriptor
from pilotage.testing import ScriptedModel, StopAfter, calls, crash_matrix, says, turn

DURABLE = AgentExecutionSpec(name="helper", recovery=RecoveryStrategy.ACTION_BOUNDARY)
UNGATED = ToolApprovalRequirement.NOT_REQUIRED
QUERY: JsonObject = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "top-k": {"type": "integer"}},
    "required": ["query"],
    "additionalProperties": False,
}
AMOUNT: JsonObject = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}},
    "required": ["amount"],
}


class Server:
    """A remote server: it outlives every process, and counts what was asked of it."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()


class Remote(IAgentToolProvider):
    """The tools of the server: a look-up, one that may be repeated, one that may not, one that a person has to allow."""

    def __init__(self, server: Server) -> None:
        self.server = server
        read = ToolEffects(data_access=DataAccess.READ)
        outside, once = ToolEffects.external_side_effect(), Idempotency.NON_IDEMPOTENT
        self._catalog = AgentToolCatalog(
            (
                self._tool(
                    self._search,
                    ToolOptions(name="search", description="Find.", effects=read, reads_untrusted=False),
                    QUERY,
                ),
                self._tool(
                    self._pay,
                    ToolOptions(
                        name="pay", effects=outside, idempotency=once, approval=UNGATED, reads_untrusted=False
                    ),
                    AMOUNT,
                ),
                self._tool(
                    self._refund,
                    ToolOptions(name="refund", effects=outside, idempotency=once, reads_untrusted=False),
                    AMOUNT,
                ),
                self._tool(
                    self._book,
                    ToolOptions(
                        name="book",
                        effects=outside,
                        idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT,
                        approval=UNGATED,
                        reads_untrusted=False,
                    ),
                    AMOUNT,
                ),
            )
        )

    @property
    def tool_catalog(self) -> AgentToolCatalog:
        return self._catalog

    def _tool(self, act: object, options: ToolOptions, schema: JsonObject) -> AgentToolDescriptor:
        return described_tool(act, options, owner=Remote, input_schema=schema)  # type: ignore[arg-type]

    async def _search(self, arguments: JsonObject) -> JsonValue:
        self.server.asked["search"] += 1
        return {"found": [arguments["query"]], "asked": dict(arguments)}

    async def _pay(self, arguments: JsonObject) -> JsonValue:
        self.server.asked[f"pay {arguments['amount']}"] += 1
        return {"paid": arguments["amount"]}

    async def _refund(self, arguments: JsonObject) -> JsonValue:
        self.server.asked[f"refund {arguments['amount']}"] += 1
        return {"refunded": arguments["amount"]}

    async def _book(self, arguments: JsonObject, runtime_context: AgentToolRuntimeContext) -> JsonValue:
        self.server.asked[f"book {runtime_context.idempotency_key}"] += 1
        return {"key": runtime_context.idempotency_key}


@Pod
def remote(server: Server) -> Remote:
    """The provider of an application."""
    return Remote(server)


@Agent(spec=DURABLE)
class Helper:
    """Help with what a server can do."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote

    @agent_tool(effects=ToolEffects.read_only())
    async def clock(self) -> str:
        """Tell the time."""
        return "noon"


async def offered(runs_of: Bureau, server: Server) -> tuple[ScriptedModel, object]:
    model = ScriptedModel([says("Hello.")])
    async with runs_of.process(Helper, None, server, remote, model=model) as runs:
        return model, await started(runs, Helper, "hi")


async def test_the_tools_of_a_catalog_are_offered_beside_the_agents_own() -> None:
    model, _ = await offered(Bureau(), Server())
    calling = model.requests[0].tool_calling
    assert calling is not None
    assert {tool.name for tool in calling.tools} == {"clock", "search", "pay", "refund", "book"}
    (search,) = [tool for tool in calling.tools if tool.name == "search"]
    assert search.description == "Find."
    assert search.parameters.schema["properties"] == QUERY["properties"]


async def test_a_call_goes_through_the_door_and_leaves_evidence() -> None:
    bureau, server = Bureau(), Server()
    model = ScriptedModel([calls("search", {"query": "ports", "top-k": "3"}), says("Found.")])
    async with bureau.process(Helper, None, server, remote, model=model) as runs:
        result = await started(runs, Helper, "look")
        evidence = await runs.evidence(result.state.id)
    assert result.output == "Found."
    assert server.asked == {"search": 1}
    (told,) = [message for message in model.requests[1].messages if message.role == "tool"]
    assert '"top-k":3' in told.text.replace(" ", "")
    assert AgentEvidenceKind.TOOL in {each.kind for each in evidence}


async def test_arguments_that_do_not_fit_the_schema_go_back_to_the_model() -> None:
    bureau, server = Bureau(), Server()
    model = ScriptedModel([calls("search", limit=3), says("Sorry.")])
    async with bureau.process(Helper, None, server, remote, model=model) as runs:
        assert (await started(runs, Helper, "look")).output == "Sorry."
    assert not server.asked
    (told,) = [message for message in model.requests[1].messages if message.role == "tool"]
    assert "'query' is missing" in told.text
    assert "'limit' is not a parameter" in told.text


async def test_a_person_is_asked_and_may_change_the_arguments_within_the_schema() -> None:
    bureau, server = Bureau(), Server()
    model = ScriptedModel([calls("refund", amount=30), says("Done.")])
    async with bureau.process(Helper, None, server, remote, model=model) as runs:
        waiting = await started(runs, Helper, "refund")
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentApprovalRequest)
        assert not server.asked
        with pytest.raises(CallerError, match="amount"):
            await runs.modify(question.id, {"amount": "much"})
        await runs.modify(question.id, {"amount": 20})
        assert (await resumed(runs, waiting.state.id)).status is AgentStatus.COMPLETED
    assert server.asked == {"refund 20": 1}


async def test_an_unknown_outcome_is_left_to_a_person_who_may_report_any_json() -> None:
    bureau, server = Bureau(), Server()
    model = ScriptedModel([calls("pay", amount=5), says("Paid.")])
    fault = StopAfter(2)
    async with bureau.process(Helper, None, server, remote, model=model, fault=fault) as runs:
        handle = await runs.start(Helper, "pay")
        with pytest.raises(BaseException):  # noqa: B017, PT011 - the process dies
            await handle.result()
    async with bureau.process(Helper, None, server, remote, model=model.restarted()) as runs:
        bureau.clock.advance(3600)
        waiting = await resumed(runs, handle.id)
        (question,) = await runs.questions(waiting.state.id)
        assert isinstance(question, AgentRecoveryRequest)
        await runs.answer(handle.id, question.id, RecoveryDecision.DONE, result={"paid": 5})
        assert (await resumed(runs, handle.id)).output == "Paid."


@pytest.mark.slow
async def test_tools_of_a_catalog_survive_every_crash(second_stops: tuple[int, ...]) -> None:
    script = [
        turn(calls("search", query="a"), calls("clock"), calls("search", query="b")),
        turn(calls("pay", amount=2), calls("book", amount=3), calls("refund", amount=4)),
        says("All done."),
    ]
    report = await crash_matrix(
        Helper, "go", model=ScriptedModel(script), add=[Server(), remote], second_stops=second_stops
    )
    assert report.reference.output == "All done."
    assert report.points > 50
    report.assert_same_result()
    report.assert_no_repeated_effects()


@Agent(spec=AgentExecutionSpec(name="caller", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Caller:
    """Calls tools of a catalog by itself."""

    def __init__(self, model: IAgentModel, remote: Remote) -> None:
        self.model, self.tools = model, remote.tool_catalog

    async def execute(self, amount: int) -> str:
        """By name, and because a model asks for it."""
        paid = await self.tools.by_schema_name("pay").callable(amount=amount)  # type: ignore[misc]
        calling = ToolCallingSpec.from_tools(each.callable for each in self.tools.descriptors)
        reply = await self.model.complete(ModelRequest([ModelMessage.user("search")], tools=calling))
        found = await calling.invoke(reply.tool_calls[0])
        return f"{paid} {found}"


async def test_a_hand_written_agent_calls_them_as_actions_of_its_run() -> None:
    model = ScriptedModel([calls("search", query="a")])
    report = await crash_matrix(Caller, 7, model=model, add=[Server(), remote])
    assert report.reference.output == "{'paid': 7} {'asked': {'query': 'a'}, 'found': ['a']}"
    assert report.key("pay")
    report.assert_same_result()
    report.assert_no_repeated_effects()


class Fixed(IAgentToolProvider):
    """Offers what it is told to offer."""

    def __init__(self, catalog: object) -> None:
        self._catalog = catalog

    @property
    def tool_catalog(self) -> AgentToolCatalog:
        return self._catalog  # type: ignore[return-value]


async def _nothing(arguments: JsonObject) -> JsonValue:
    return None


def catalog(*options: ToolOptions, fields: Sequence[SensitiveFieldDescriptor] = ()) -> AgentToolCatalog:
    return AgentToolCatalog(
        tuple(
            described_tool(
                _nothing,
                each,
                owner=Fixed,
                input_schema={"properties": {"to": {}}},
                input_sensitive_fields=tuple(fields),
            )
            for each in options
        )
    )


@Agent(spec=DURABLE)
class Holder:
    """Holds a provider."""

    def __init__(self, fixed: Fixed) -> None:
        self.fixed = fixed

    @agent_tool(effects=ToolEffects.read_only())
    async def clock(self) -> str:
        """Tell the time."""
        return "noon"


class Elsewhere:
    @agent_tool(effects=ToolEffects.read_only())
    async def look(self) -> str:
        """Look."""
        return "seen"


OUT = ToolEffects.external_side_effect()
LEAK = [
    ToolOptions(
        name="browse", effects=ToolEffects(data_access=DataAccess.READ, network=True), approval=UNGATED
    ),
    ToolOptions(name="files", effects=ToolEffects.read_only(), reads_private=True),
    ToolOptions(name="mail", effects=OUT, approval=UNGATED, accepts_untrusted=True),
]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (catalog(ToolOptions(name="clock")), "both offer the tool 'clock'"),
        (["search"], "Fixed.tool_catalog is list. Return an AgentToolCatalog."),
        (discover_agent_tools(Elsewhere), "the agent holds no Elsewhere to call it on"),
        (catalog(*LEAK), "meet a way out that needs no approval"),
    ],
)
async def test_a_catalog_that_does_not_fit_is_an_error_at_start_up(given: object, words: str) -> None:
    with pytest.raises((AgentDefinitionError, ApplicationStartError), match=words):
        async with Bureau().process(Holder, None, Fixed(given)):
            pass


async def test_what_a_catalogs_tool_hides_must_be_sealed() -> None:
    hidden = SensitiveFieldDescriptor(("to",), SensitiveField(PII.EMAIL))
    mail = catalog(ToolOptions(name="mail", effects=OUT), fields=[hidden])
    with pytest.raises(ApplicationStartError, match=r"sensitive arguments \(to\)"):
        async with Bureau().process(Holder, None, Fixed(mail), has_sealer=False):
            pass
    async with Bureau().process(Holder, None, Fixed(mail)):
        pass


@Pod
class Both(IAgentToolProvider):
    """A pod with a method that is a tool, which its catalog names too."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self) -> str:
        """Look."""
        return "seen"

    @property
    def tool_catalog(self) -> AgentToolCatalog:
        return discover_agent_tools(Both)


@Agent(spec=DURABLE)
class Onlooker:
    """Looks."""

    def __init__(self, both: Both) -> None:
        self.both = both


async def test_a_method_that_a_catalog_names_too_is_one_tool() -> None:
    model = ScriptedModel([calls("look"), says("Seen.")])
    async with Bureau().process(Onlooker, None, Both, model=model) as runs:
        assert (await started(runs, Onlooker, "look")).output == "Seen."
    calling = model.requests[0].tool_calling
    assert calling is not None
    assert [tool.name for tool in calling.tools] == ["look"]
