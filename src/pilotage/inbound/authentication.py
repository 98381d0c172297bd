"""Principal resolvers over the headers, or properties, of a request. Authentication fails closed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

from pilotage.agent.ports.permissions import IPrincipalResolver
from pilotage.agent.principal import DEFAULT_TENANT, LOCAL, Principal
from pilotage.errors import AgentDefinitionError, NotAuthenticatedError, PilotageError
from pilotage.inbound.problems import RunStoreUnreachableError
from pilotage.jsonvalue import text_digest

_LOG = logging.getLogger(__name__)
_SHORTEST_TOKEN = 12
_SCHEME = "bearer"


class BearerTokens(IPrincipalResolver):
    """Principal resolver by the token in `Authorization: Bearer ...`."""

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        """Keep the tokens.

        Raises:
            AgentDefinitionError: a token is one that can be guessed.
        """
        for token, principal in tokens.items():
            if len(token) < _SHORTEST_TOKEN or token != token.strip():
                raise AgentDefinitionError(
                    f"the token of {principal.id!r} has fewer than {_SHORTEST_TOKEN} characters, or blanks around it. "
                    "Use a random one: secrets.token_urlsafe()."
                )
        # Looked up by digest, so that the time of a look-up reveals nothing about a token.
        self._known = {text_digest(token): principal for token, principal in tokens.items()}

    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        known = self._known.get(text_digest(token.strip())) if scheme.lower() == _SCHEME else None
        if known is None:
            raise NotAuthenticatedError(
                "the request has no token that is known here. Send one: 'Authorization: Bearer ...'."
            )
        return known


class TrustedHeaders(IPrincipalResolver):
    """Principal resolver by headers of a proxy, which must authenticate, set them and remove those of clients.

    Without `tenant_header` every principal belongs to the default tenant.
    """

    def __init__(self, id_header: str, tenant_header: str | None = None) -> None:
        self.id_header = id_header.lower()
        self._tenant_header = tenant_header.lower() if tenant_header is not None else None

    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        tenant = self._tenant_header
        return Principal(
            _only(headers, self.id_header), DEFAULT_TENANT if tenant is None else _only(headers, tenant)
        )


class OnePrincipal(IPrincipalResolver):
    """Principal resolver with one principal for all requests. Only for servers that no one else reaches."""

    def __init__(self, principal: Principal = LOCAL) -> None:
        self._principal = principal

    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        return self._principal


def _only(headers: Mapping[str, str], name: str) -> str:
    """Return the only value of a header: of several, one may be the client's own."""
    given = headers.get(name, "").strip()
    if not given or "," in given:
        raise NotAuthenticatedError(f"the request has no header {name!r}, or more than one.")
    return given


async def resolved(resolver: IPrincipalResolver, headers: Mapping[str, str]) -> Principal:
    """Return the principal of a request: `headers` are the headers or properties that came with it, in lower case.

    Raises:
        NotAuthenticatedError: the principal is not known, or the resolver failed.
        RunStoreUnreachableError: the resolver cannot reach its store.
    """
    try:
        principal = cast(object, await resolver.resolve(headers))
    except PilotageError:
        raise
    except OSError as error:
        raise RunStoreUnreachableError from error
    except Exception as error:
        _LOG.exception("%s could not resolve the principal", type(resolver).__name__)
        raise NotAuthenticatedError from error
    if not isinstance(principal, Principal):
        raise NotAuthenticatedError
    return principal
