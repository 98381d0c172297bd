"""What an application declares about an MCP server: how it is reached, its limits, and what its tools do."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias, TypedDict

from pilotage.adapters.egress import EgressPolicy
from pilotage.adapters.mcp.errors import McpStartError
from pilotage.agent.tool_review import check_accept
from pilotage.agent.tools.metadata import (
    Idempotency,
    ToolApprovalRequirement,
    ToolEffects,
    ToolPermission,
)
from pilotage.checks import reject_not_positive
from pilotage.environment import Variables
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.safety.fields import SecretRef
from pilotage.values import value

PREFIX = "PILOTAGE_MCP_"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]*")

Reconcile: TypeAlias = Callable[[str, JsonObject], Awaitable[JsonValue]]
"""Finds out by the idempotency key and the arguments what became of a call: its result; None if it did not happen."""


@value
class McpLimits:
    """Limits of a server.

    `connect_seconds`    time to start and to agree on the protocol; also how long a call waits for a new connection
    `call_seconds`       time of one request
    `stop_seconds`       time to end after its standard input was closed, and again after SIGTERM
    `question_seconds`   how long a call of the older era is held open for the answer to its question
    `most_bytes`         length of a message, and of an answer over HTTP
    `most_calls`         requests under way at the same time
    `most_tools`         tools that are listed
    `most_rounds`        questions that one call may ask, one after the other
    """

    connect_seconds: float = 30.0
    call_seconds: float = 300.0
    stop_seconds: float = 2.0
    question_seconds: float = 3600.0
    most_bytes: int = 10_000_000
    most_calls: int = 8
    most_tools: int = 1_000
    most_rounds: int = 20

    def __post_init__(self) -> None:
        reject_not_positive(self, connect_seconds=self.connect_seconds, call_seconds=self.call_seconds)
        reject_not_positive(self, stop_seconds=self.stop_seconds, question_seconds=self.question_seconds)
        reject_not_positive(self, most_bytes=self.most_bytes, most_calls=self.most_calls)
        reject_not_positive(self, most_tools=self.most_tools, most_rounds=self.most_rounds)


@value
class McpTool:
    """What the application knows about one tool of a server; what is left out is presumed dangerous.

    `idempotency` says what repeating a call means: `IDEMPOTENT` calls are repeated after a broken line, all others
    never by themselves. With `honours_key` the server recognises a repeated call by its idempotency key; None takes the
    server's word for it. `reconcile` looks up what became of a call.
    """

    effects: ToolEffects | None = None
    idempotency: Idempotency = Idempotency.UNKNOWN
    honours_key: bool | None = None
    reconcile: Reconcile | None = None
    permissions: Sequence[ToolPermission] = ()
    approval: ToolApprovalRequirement = ToolApprovalRequirement.DERIVED
    reads_untrusted: bool | None = None
    reads_private: bool = False
    accepts_untrusted: bool = False


@value
class McpQuestion:
    """A question of a server during a call: its text, and the schema of the answer or an address to visit."""

    server: str
    tool: str
    text: str
    schema: JsonObject
    url: str | None = None


AnswerQuestion: TypeAlias = Callable[[McpQuestion], Awaitable[JsonObject | None]]
"""Answers a question of a server in place of a person: the content, or None to decline."""


@value
class McpServerSettings:
    """How one server is reached, and what is known about it. A `SecretRef` is resolved by the application's `ISecrets`.

    `command`            starts a process, with `environment` besides the usual variables, in `folder`
    `url`                the address of a server that runs, with `headers` and a bearer `token`
    `egress`             what HTTP may reach; by default the host of `url` alone
    `prefix`             what the names of its tools begin with for models; by default the name of the server
    `tools`              what the application knows about tools; one that is not declared counts as one that may destroy
    `leaves_out`         tools that are not offered
    `accept`             how tools are accepted: by people one by one, "first use", or the digest of a list in code
    `trusts_hints`       whether the hints of the server count for tools that are not declared
    `reads_untrusted`    whether strangers may have written its results and descriptions
    `questions`          who answers what the server asks during a call: people, a function, or it is refused
    `roots`              folders that the server may ask for
    `is_required`        whether an application fails to start without it
    `protocol`           'auto', 'legacy' for the older era alone, or a version of the protocol
    """

    name: str
    command: Sequence[str] = ()
    url: str | None = None
    environment: Mapping[str, SecretRef | str] = field(default_factory=dict[str, SecretRef | str], repr=False)
    folder: str | None = None
    headers: Mapping[str, SecretRef | str] = field(default_factory=dict[str, SecretRef | str], repr=False)
    token: SecretRef | str | None = field(default=None, repr=False)
    egress: EgressPolicy | None = None
    prefix: str | None = None
    tools: Mapping[str, McpTool] = field(default_factory=dict[str, McpTool])
    leaves_out: Iterable[str] = frozenset()
    accept: str | None = None
    trusts_hints: bool = False
    reads_untrusted: bool = True
    questions: Literal["people", "refuse"] | AnswerQuestion = "people"
    roots: Sequence[str] = ()
    is_required: bool = True
    protocol: str = "auto"
    limits: McpLimits = field(default_factory=McpLimits)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise AgentDefinitionError(
                f"McpServer.name is {self.name!r}. Use lower-case letters, digits, '-' and '_', at most 32: 'files'."
            )
        check_accept(self.name, self.accept)
        if isinstance(self.command, str):
            raise AgentDefinitionError(
                f"MCP server {self.name!r}: command is a text. Write a list: {shlex.split(self.command)!r}."
            )
        object.__setattr__(self, "command", tuple(self.command))
        object.__setattr__(self, "leaves_out", frozenset(self.leaves_out))
        object.__setattr__(self, "roots", tuple(self.roots))
        if self.command and self.url is not None:
            raise AgentDefinitionError(
                f"MCP server {self.name!r} has both a command and an address. Keep the one that is meant: "
                "command=... starts a process, url=... connects to a server that runs."
            )
        if self.url is None and (self.headers or self.token is not None or self.egress is not None):
            raise AgentDefinitionError(
                f"MCP server {self.name!r} has headers, a token or an egress policy, and no address. Write url=..., or "
                "hand secrets to a process by environment=..."
            )
        if wrong := [root for root in self.roots if not root.startswith("file://")]:
            raise AgentDefinitionError(
                f"MCP server {self.name!r}: {wrong[0]!r} is no root. Write 'file:///...'."
            )

    @property
    def tool_prefix(self) -> str:
        """What the names of its tools begin with for models."""
        return f"{self.name}_" if self.prefix is None else self.prefix


class McpServerOptions(TypedDict, total=False):
    """The fields of `McpServerSettings` besides the name, as keywords."""

    command: Sequence[str]
    url: str | None
    environment: Mapping[str, SecretRef | str]
    folder: str | None
    headers: Mapping[str, SecretRef | str]
    token: SecretRef | str | None
    egress: EgressPolicy | None
    prefix: str | None
    tools: Mapping[str, McpTool]
    leaves_out: Iterable[str]
    accept: str | None
    trusts_hints: bool
    reads_untrusted: bool
    questions: Literal["people", "refuse"] | AnswerQuestion
    roots: Sequence[str]
    is_required: bool
    protocol: str
    limits: McpLimits


def settings_from_environment(environ: Mapping[str, str] = os.environ) -> tuple[McpServerSettings, ...]:
    """Return the servers that `PILOTAGE_MCP_<NAME>_COMMAND` or `PILOTAGE_MCP_<NAME>_URL` name.

    Further variables of a server: `_TOKEN` (a bearer token), `_PASS` (names of variables that its process gets),
    `_FOLDER`, `_PREFIX`, `_ACCEPT`, `_LEAVE_OUT` (tools), `_TRUSTS_HINTS`, `_REQUIRED`.

    Raises:
        AgentDefinitionError: a server has both, or a value that cannot be.
    """
    names: dict[str, None] = {}
    for variable, given in sorted(environ.items()):
        for kind in ("_COMMAND", "_URL"):
            if variable.startswith(PREFIX) and variable.endswith(kind) and given.strip():
                names[variable.removeprefix(PREFIX).removesuffix(kind)] = None
    return tuple(_server_in(name, environ) for name in names if _ENV_NAME.fullmatch(name))


def _server_in(name: str, environ: Mapping[str, str]) -> McpServerSettings:
    variables = Variables(environ, f"{PREFIX}{name}_")
    try:
        command = tuple(shlex.split(variables.text("COMMAND")))
    except ValueError as error:
        raise AgentDefinitionError(
            f"{PREFIX}{name}_COMMAND cannot be split into words: {error}. Quote it as in a shell."
        ) from error
    url = variables.text("URL") or None
    if command and url is not None:
        raise AgentDefinitionError(
            f"{PREFIX}{name}_COMMAND and {PREFIX}{name}_URL are both set. Unset the one that is not meant."
        )
    return McpServerSettings(
        name=name.lower(),
        command=command,
        url=url,
        environment={each: environ[each] for each in variables.names("PASS") if each in environ},
        folder=variables.text("FOLDER") or None,
        token=variables.text("TOKEN") or None,
        prefix=variables.text("PREFIX") or None,
        accept=variables.text("ACCEPT") or None,
        leaves_out=frozenset(variables.names("LEAVE_OUT")),
        trusts_hints=variables.switch("TRUSTS_HINTS"),
        is_required=variables.switch("REQUIRED", usual=True),
    )


def refuse_unreachable(settings: McpServerSettings) -> None:
    """Refuse a server that is neither started nor connected to.

    Raises:
        McpStartError: it has neither a command nor an address.
    """
    if not settings.command and settings.url is None:
        raise McpStartError(
            settings.name, "it has neither a command nor an address. Write command=[...] or url=..."
        )
