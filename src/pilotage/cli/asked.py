"""`Asked`: the options that commands about runs share. Imported by every command: nothing dear in here."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Mapping

from pilotage.agent.principal import DEFAULT_TENANT, LOCAL, Principal
from pilotage.cli.words import Hints
from pilotage.values import value

TENANT = "PILOTAGE_TENANT"
AS = "PILOTAGE_AS"


@value
class Asked:
    """The options that commands about runs share."""

    app: str | None = None
    tenant: str | None = None
    who: str | None = None
    as_json: bool = False

    @property
    def principal(self) -> Principal:
        """The principal that asks."""
        return principal_of(self.who, self.tenant)

    def hints(self, option: str) -> Hints:
        """Return hints whose commands mean the same application, by its option, and the same tenant."""
        tenant = f"--tenant {shlex.quote(self.tenant)}" if self.tenant else ""
        return Hints(" ".join(each for each in (option, tenant) if each))


def principal_of(who: str | None, tenant: str | None, environ: Mapping[str, str] = os.environ) -> Principal:
    """Return the principal that the options name, else the environment, else the login name."""
    return Principal(
        who or environ.get(AS, "").strip() or _login(),
        tenant or environ.get(TENANT, "").strip() or DEFAULT_TENANT,
    )


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return LOCAL.id
