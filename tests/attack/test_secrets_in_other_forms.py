"""A secret that software writes down in another form: escaped, encoded, line by line, as bytes."""

from __future__ import annotations

import html
import json
import logging
import shlex
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from traceback import format_exception
from typing import Annotated
from urllib.parse import quote

import pytest

from pilotage import Agent, AgentExecutionSpec, Application, Pod, RecoveryStrategy, ToolEffects, agent_tool
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import AgentRuns, step
from pilotage.runtime.exposure.redactor import LOGGER
from pilotage.runtime.plugin import initialize
from pilotage.safety import SecretField
from pilotage.testing import MemoryStore
from tests.attack.test_secrets_in_replies import Vault

pytestmark = pytest.mark.attack("canaries")

PASSWORD = "correct-horse-battery-staple"
SPECIAL = "pa\"ss'w\\ord<&>+/é\tand so on"
KEY = """-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj
MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu
-----END PRIVATE KEY-----
"""
SECRETS = {"a password": PASSWORD, "special characters": SPECIAL, "a key of several lines": KEY}


def failed(error: Exception) -> str:
    raise error


def noted(secret: str) -> str:
    error = TimeoutError()
    error.add_note(f"with {secret}")
    raise error


FORMS: dict[str, Callable[[str], JsonValue]] = {
    "as it is": str,
    "as a key": lambda secret: [{"inside": {secret: 1}}],
    "shown by Python": lambda secret: repr({"password": secret}),
    "shown as bytes": lambda secret: repr(secret.encode()),
    "in JSON": json.dumps,
    "in JSON inside of JSON": lambda secret: json.dumps({"body": json.dumps({"password": secret})}),
    "in a page": html.escape,
    "in a command": lambda secret: f"login -p {shlex.quote(secret)}",
    "in an address": lambda secret: f"https://u:{quote(secret, safe='')}@host",
    "in an address with small letters": lambda secret: quote(secret, safe="").replace("%2B", "%2b"),
    "as basic authentication": lambda secret: f"Basic {b64encode(f'user:{secret}'.encode()).decode()}",
    "in a manifest": lambda secret: f"data: {b64encode(secret.encode()).decode()}",
    "in a cookie": lambda secret: urlsafe_b64encode(f"a={secret};b=1".encode()).decode(),
    "in hexadecimal digits": lambda secret: f"\\x{secret.encode().hex()}",
    "line by line": lambda secret: [f"  {line}" for line in secret.splitlines()],
    "with other ends of lines": lambda secret: secret.replace("\n", "\r\n"),
    "as the key that is missing": lambda secret: failed(KeyError(secret)),
    "in an exception": lambda secret: failed(ValueError(secret.encode())),
    "in one of a group of exceptions": lambda secret: failed(ExceptionGroup("all", [ValueError(secret)])),
    "in a note": noted,
    "in an error for the model": lambda secret: failed(ToolError(f"no {secret!r}")),
}


@Pod
class Safe:
    @agent_tool(effects=ToolEffects.read_only())
    async def write(self, form: str, key: Annotated[str, SecretField()]) -> JsonValue:
        """Write the secret down."""
        return FORMS[form](key)


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Writer:
    def __init__(self, safe: Safe) -> None:
        self.safe = safe

    async def execute(self, form: str) -> str:
        try:
            return str(await self.safe.write(form))
        except ToolError as error:
            return str(error)


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Reader:
    """A step whose result is bytes, which records have in base64."""

    def __init__(self, safe: Safe) -> None:
        self.safe = safe

    async def execute(self, before: int) -> int:
        await self.safe.write("as it is")
        return len(await step("read", lambda: bytes(before) + PASSWORD.encode() + bytes(5)))


def pieces_of(secret: str) -> set[str]:
    """The texts that give the secret away."""
    data = secret.strip().encode()
    encoded = {
        encode(bytes(n) + data).decode()[4 * ((n + 2) // 3) : -4]
        for n in range(3)
        for encode in (b64encode, urlsafe_b64encode)
    }
    lines = [line for line in secret.splitlines() if len(line) > 15 and "---" not in line]
    return {*lines, *encoded, data.hex(), repr(data)[2:-1], repr(secret)[1:-1], html.escape(secret.strip())}


async def sinks_of(runs: AgentRuns, run_id: str, output: object, log: str) -> AsyncIterator[tuple[str, str]]:
    yield "answer", str(output)
    yield "log", log
    async for event in runs.events(run_id, follow=False):
        yield "event", repr(event)
    for piece in await runs.evidence(run_id):
        yield "evidence", repr(piece)
    assert runs.services.journal is not None
    async for row in runs.services.journal.read(RunKey("default", run_id)):
        yield "row", repr((row.record, row.view))


async def leaks(
    agent: type[object], given: object, secret: str, caplog: pytest.LogCaptureFixture
) -> list[str]:
    app = Application("safe").add(Writer, Reader, Safe, Vault(secret), *MemoryStore().ports)
    initialize(app)
    with caplog.at_level(logging.ERROR, LOGGER):
        async with app:
            runs = app.get(AgentRuns)
            run = await runs.start(agent, given)
            result = await run.result()
            said = result.output or result.error
            assert said
            found = [each async for each in sinks_of(runs, run.id, said, caplog.text)]
    texts = pieces_of(secret)
    return [
        f"{sink}: {text} in {shown}"
        for sink, shown in found
        for text in texts
        if text in shown or json.dumps(text)[1:-1] in shown
    ]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", FORMS)
async def test_a_secret_is_found_in_the_forms_that_software_makes(
    form: str, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await leaks(Writer, form, SECRETS[secret], caplog) == []


@pytest.mark.parametrize("before", range(3))
async def test_bytes_with_a_secret_are_masked_in_records(
    before: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert await leaks(Reader, before, PASSWORD, caplog) == []


@pytest.mark.parametrize("form", FORMS)
def test_the_search_finds_what_is_not_masked(form: str) -> None:
    try:
        written = str(FORMS[form](KEY))
    except (ToolError, ExceptionGroup, KeyError, ValueError, TimeoutError) as error:
        written = "".join(format_exception(error))
    assert any(piece in written for piece in pieces_of(KEY))
