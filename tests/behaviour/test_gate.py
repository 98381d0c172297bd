"""The gate before every action: permissions, hooks, timeouts, secrets; and what others see of a result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

import pytest

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    Principal,
    RecoveryStrategy,
    RunContext,
    SecretField,
    SensitiveField,
    TimeoutPolicy,
    ToolEffects,
    ToolPermission,
    agent_tool,
)
from pilotage.agent import (
    HookVerdict,
    IAgentHooks,
    IAgentPermissions,
    ISecrets,
    ModelToolCall,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
    RequireHeld,
    RunKey,
    SecretRef,
    ToolApprovalRequirement,
    Veto,
)
from pilotage.agent.principal import LOCAL
from pilotage.errors import ModelCallError, PermissionDeniedError, ToolError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import AgentRuns, RunResult
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, says

FREE = ToolApprovalRequirement.NOT_REQUIRED
DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


class CanMail(ToolPermission): ...


@dataclass(frozen=True)
class Sent:
    to: Annotated[str, SensitiveField(PII.EMAIL)]
    number: int


@Pod
class Mail:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.never = asyncio.Event()

    @agent_tool(
        effects=ToolEffects.external_side_effect(),
        idempotency=Idempotency.NON_IDEMPOTENT,
        approval=FREE,
        permissions=[CanMail()],
        reads_untrusted=False,
    )
    async def send(
        self, to: Annotated[str, SensitiveField(PII.EMAIL)], key: Annotated[str, SecretField()] = ""
    ) -> Sent:
        """Send a mail."""
        self.sent.append(f"{to} with {key}")
        return Sent(to, len(self.sent))

    @agent_tool(effects=ToolEffects.read_only(), timeout=TimeoutPolicy(0.001))
    async def wait(self) -> str:
        """Wait for something that never comes."""
        await self.never.wait()
        return "came"


@Agent(spec=DURABLE)
class Sender:
    def __init__(self, mail: Mail) -> None:
        self.mail = mail

    async def execute(self, to: str) -> str:
        try:
            return str((await self.mail.send(to)).number)
        except ToolError as error:
            return str(error)


@Agent(spec=DURABLE)
class Waiter:
    def __init__(self, mail: Mail) -> None:
        self.mail = mail

    async def execute(self) -> str:
        return await self.mail.wait()


@Agent(spec=DURABLE)
class Asker:
    def __init__(self, model: IAgentModel) -> None:
        self.model = model

    async def execute(self) -> str:
        try:
            return (await self.model.complete(ModelRequest([ModelMessage.user("hi")]))).content
        except ModelCallError as error:
            return str(error)


class Vault(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return f"s3cret-{ref.id}"


async def run(
    agent: type[object],
    given: object,
    store: MemoryStore,
    *pods: object,
    principal: Principal = LOCAL,
) -> RunResult:
    model = ScriptedModel([says("Hello.")])
    app = Application("mail").add(Sender, Waiter, Asker, Mail, model, Vault(), *store.ports, *pods)
    initialize(app)
    async with app:
        return await (await app.get(AgentRuns).start(agent, given, principal=principal)).result()


class Locked(ISecrets):
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        raise PermissionDeniedError(f"{context.user_id} may not have {ref.id!r}")


async def test_a_tool_whose_secret_is_denied_has_certainly_not_run() -> None:
    store, mail = MemoryStore(), Mail()
    app = Application("mail").add(Sender, mail, Locked(), *store.ports)
    initialize(app)
    async with app:
        result = await (await app.get(AgentRuns).start(Sender, "ada@example.org")).result()
    assert (result.status, result.output) == (
        AgentStatus.COMPLETED,
        "'send' did not run: local may not have 'key'",
    )


async def test_secrets_reach_the_tool_and_nothing_else_and_views_are_guarded() -> None:
    store, mail = MemoryStore(), Mail()
    app = Application("mail").add(Sender, mail, Vault(), *store.ports)
    initialize(app)
    async with app:
        handle = await app.get(AgentRuns).start(Sender, "ada@example.org")
        assert (await handle.result()).output == "1"
    assert mail.sent == ["ada@example.org with s3cret-key"]
    rows = [row async for row in store.journal.read(RunKey("default", handle.id))]
    assert "s3cret" not in str(rows)
    views = [row.view for row in rows if row.action_id.startswith("run/tool:send")]
    assert views == [
        {"asked": {"to": "[REDACTED]"}},
        {
            "result": {"to": "[REDACTED]", "number": 1},
            "secrets": ["key"],
            "trust": {"confidentiality": "tenant", "integrity": "trusted", "origins": ["tool:send"]},
        },
    ]


async def test_a_permission_that_is_missing_denies_and_the_agent_hears_it() -> None:
    denied = await run(Sender, "ada@example.org", MemoryStore(), RequireHeld())
    assert denied.output == "'send' is not allowed: 'local' does not hold 'can_mail'"
    (name,) = {CanMail().name}
    allowed = await run(
        Sender,
        "ada@example.org",
        MemoryStore(),
        RequireHeld(),
        principal=Principal("ada", permissions=frozenset({name})),
    )
    assert allowed.output == "1"


class Broken(IAgentPermissions):
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        raise ConnectionError("no policy server")


class Asks(IAgentPermissions):
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        return PermissionDecision(PermissionVerdict.ASK)


async def test_a_policy_that_fails_denies_and_one_that_asks_pauses() -> None:
    denied = await run(Sender, "ada@example.org", MemoryStore(), Broken())
    assert denied.output == "'send' is not allowed: the permission check failed (ConnectionError)"
    paused = await run(Sender, "ada@example.org", MemoryStore(), Asks())
    assert paused.status is AgentStatus.INTERRUPTED


class Watcher(IAgentHooks):
    def __init__(self, veto: str | None = None, fails: bool = False) -> None:
        self.veto, self.fails = veto, fails
        self.seen: list[object] = []

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        self.seen.append(("before", call.name, call.arguments))
        if self.fails:
            raise ValueError("broken hook")
        return Veto(self.veto) if self.veto else await super().pre_tool(context, call)

    async def post_tool(self, context: RunContext, call: ModelToolCall, result: JsonValue) -> None:
        self.seen.append(("after", result))
        raise ValueError("observing fails")

    async def pre_model(self, context: RunContext, request: ModelRequest) -> HookVerdict:
        return Veto(self.veto) if self.veto else await super().pre_model(context, request)


async def test_hooks_see_guarded_values_and_cannot_fail_a_run_afterwards() -> None:
    watcher = Watcher()
    assert (await run(Sender, "ada@example.org", MemoryStore(), watcher)).output == "1"
    assert watcher.seen == [
        ("before", "send", {"to": "[REDACTED]"}),
        ("after", {"result": {"to": "[REDACTED]", "number": 1}}),
    ]


@pytest.mark.parametrize(
    ("watcher", "reason"),
    [
        (Watcher(veto="not on Sundays"), "not on Sundays"),
        (Watcher(fails=True), "the hook Watcher failed (ValueError)"),
    ],
)
async def test_a_hook_vetoes_by_saying_so_or_by_failing(watcher: Watcher, reason: str) -> None:
    assert (
        await run(Sender, "x@example.org", MemoryStore(), watcher)
    ).output == f"'send' is not allowed: {reason}"


async def test_a_hook_vetoes_a_model_call() -> None:
    assert (await run(Asker, None, MemoryStore())).output == "Hello."
    vetoed = await run(Asker, None, MemoryStore(), Watcher(veto="no models today"))
    assert vetoed.output == "the model call is not allowed: no models today"


async def test_a_tool_that_takes_too_long_is_stopped() -> None:
    result = await run(Waiter, None, MemoryStore())
    assert result.status is AgentStatus.FAILED
    assert "TimeoutError" in str(result.error)


@Pod
class Shelf:
    @agent_tool(effects=ToolEffects.read_only())
    def look(self) -> str:
        """Look without waiting."""
        return "a book"


@Agent(spec=DURABLE)
class Reader:
    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    async def execute(self) -> str:
        return self.shelf.look()


class Slow(IAgentPermissions):
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        await asyncio.sleep(0)
        return PermissionDecision(PermissionVerdict.ALLOW)


async def test_a_sync_tool_behind_a_policy_that_waits_says_what_to_do() -> None:
    store = MemoryStore()
    assert (await run(Reader, None, store, Reader, Shelf)).output == "a book"
    result = await run(Reader, None, MemoryStore(), Reader, Shelf, Slow())
    assert result.status is AgentStatus.FAILED
    assert "Make the tool async, and await it." in str(result.error)
