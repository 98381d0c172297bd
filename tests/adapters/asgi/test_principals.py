"""Who is let in, and who is not."""

from __future__ import annotations

import pytest

from pilotage import Principal
from pilotage.adapters.fastapi import BearerTokens, HttpSettings, TrustedHeaders, agent_routes
from pilotage.container import Application
from pilotage.errors import AgentDefinitionError, NotAuthenticatedError

TOKEN = "secret-token"
ADA = Principal("ada", "acme")


async def test_a_token_stands_for_its_principal() -> None:
    tokens = BearerTokens({TOKEN: ADA})
    assert await tokens.resolve({"authorization": f"Bearer {TOKEN}"}) == ADA
    assert await tokens.resolve({"authorization": f"bearer  {TOKEN}"}) == ADA


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN}, x"]
)
async def test_everything_else_stands_for_nobody(header: str) -> None:
    tokens = BearerTokens({TOKEN: ADA})
    with pytest.raises(NotAuthenticatedError, match="no token that is known here"):
        await tokens.resolve({"authorization": header} if header else {})


@pytest.mark.parametrize("token", ["", "short", f" {TOKEN}"])
def test_a_token_that_can_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(
        AgentDefinitionError, match="the token of 'ada' has fewer than 12 characters"
    ) as error:
        BearerTokens({token: ADA})
    assert "short" not in str(error.value)


async def test_headers_of_a_proxy_name_user_and_tenant() -> None:
    headers = TrustedHeaders("X-User", "X-Tenant")
    assert await headers.resolve({"x-user": "ada", "x-tenant": "acme"}) == ADA
    assert await TrustedHeaders("X-User").resolve({"x-user": "ada"}) == Principal("ada")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"x-user": "ada"},
        {"x-tenant": "acme"},
        {"x-user": " ", "x-tenant": "acme"},
        {"x-user": "eve, ada", "x-tenant": "acme"},
    ],
)
async def test_a_header_that_is_missing_or_comes_twice_names_nobody(given: dict[str, str]) -> None:
    with pytest.raises(NotAuthenticatedError, match="or more than one"):
        await TrustedHeaders("X-User", "X-Tenant").resolve(given)


def test_without_anybody_who_says_who_asks_there_are_no_routes() -> None:
    with pytest.raises(
        AgentDefinitionError, match="no principal resolver is configured for the runs of application 'shop'"
    ):
        agent_routes(Application("shop"))


def test_a_resolver_among_the_pods_is_enough() -> None:
    assert agent_routes(Application("shop").add(BearerTokens({TOKEN: ADA}))).routes


def test_settings_are_read_from_the_environment() -> None:
    environ = {
        "PILOTAGE_HTTP_MAX_BODY_BYTES": "10",
        "PILOTAGE_HTTP_HEARTBEAT_SECONDS": " 0.5 ",
        "PILOTAGE_HTTP_ALLOWED_ORIGINS": "https://Shop.example/, http://localhost:3000",
    }
    origins = ("https://shop.example", "http://localhost:3000")
    expected = HttpSettings(max_body_bytes=10, heartbeat_seconds=0.5, allowed_origins=origins)
    assert HttpSettings.from_environment(environ) == expected
    assert HttpSettings.from_environment({}) == HttpSettings()


@pytest.mark.parametrize("origin", ["*", "shop.example", "https://", "https://shop.example/page", "ftp://x"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(AgentDefinitionError, match="Write scheme and host"):
        HttpSettings(allowed_origins=(origin,))


@pytest.mark.parametrize("text", ["many", "0", "-1", "1.5"])
def test_a_setting_that_cannot_be_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(AgentDefinitionError, match="(?i)max_streams"):
        HttpSettings.from_environment({"PILOTAGE_HTTP_MAX_STREAMS": text})
