"""Who is let in where nothing says who asks."""

from __future__ import annotations

import pytest

from pilotage.cli.work.http_server import ThisMachineOnly
from pilotage.errors import NotAuthenticatedError


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"host": "127.0.0.1:8000"}, True),
        ({"host": "localhost"}, True),
        ({"host": "[::1]:8000", "origin": "http://localhost:3000"}, True),
        ({"host": "evil.example:8000"}, False),
        ({"host": "127.0.0.1:8000", "origin": "http://evil.example"}, False),
        ({"host": "127.0.0.1:8000", "origin": "null"}, False),
        ({"host": "127.0.0.1:8000", "origin": ""}, False),
        ({}, False),
    ],
)
async def test_pages_of_others_are_kept_out(headers: dict[str, str], is_let_in: bool) -> None:
    if is_let_in:
        assert (await ThisMachineOnly().resolve(headers)).id == "local"
    else:
        with pytest.raises(NotAuthenticatedError, match="only this machine is served here"):
            await ThisMachineOnly().resolve(headers)
