"""`doctor`: is everything there."""

from __future__ import annotations

from pilotage.cli.commands.options import AppOption, JsonOption, carry_out


def doctor(app: AppOption = None, json: JsonOption = False) -> None:
    """Look whether everything is there.

    Settings, plugins, database, model server and application; what is off is said with the way out.
    """
    from pilotage.cli.doctor.examination import examine

    carry_out(examine(app, as_json=json))
