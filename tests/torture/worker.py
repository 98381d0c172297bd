"""What `pilotage worker tests.torture.worker:app` starts."""

from __future__ import annotations

import os

from tests.torture.shop import LAST, made

app, _store = made(works=True, last_moment=int(os.environ.get(LAST, "0")))
