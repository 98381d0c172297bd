"""What all tests share: random tests explore anew on every run, except where a run must be repeatable."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("repeatable", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("repeatable" if os.environ.get("CI") else "explore")
