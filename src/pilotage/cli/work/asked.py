"""What every command about runs is told: which application, who asks, how to answer."""

from __future__ import annotations

import shlex
import sys

from pilotage.agent.principal import Principal
from pilotage.cli.choosing import Chosen
from pilotage.cli.configured import principal_of
from pilotage.cli.driving.asking import Asker
from pilotage.cli.screen.reading import Lines
from pilotage.cli.screen.screen import Screen
from pilotage.cli.views.hints import Hints
from pilotage.values import value


@value
class Asked:
    """The options that commands about runs share."""

    app: str | None = None
    tenant: str | None = None
    who: str | None = None
    as_json: bool = False

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return principal_of(self.who, self.tenant)

    def hints(self, chosen: Chosen | None) -> Hints:
        """Commands that mean the same application and tenant."""
        tenant = f"--tenant {shlex.quote(self.tenant)}" if self.tenant else ""
        option = chosen.option if chosen is not None else ""
        return Hints(" ".join(each for each in (option, tenant) if each))

    def asker(self, screen: Screen) -> Asker | None:
        """Somebody to ask, where there is one: at a terminal that shows what is asked, and not a program."""
        if self.as_json or not screen.is_terminal or not sys.stdin.isatty():
            return None
        return Asker(screen, Lines())
