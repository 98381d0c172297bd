"""What the reviewer finds by rules."""

from __future__ import annotations

from examples.code_assistant.reviewer import Checked, checked

DIFF = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,5 @@
 import os
-breakpoint()
+breakpoint()  # noqa
+KEY = "sk-0123456789ab"
+blank = 1 \n+<<<<<<< ours
 end
@@ -20 +30,2 @@
 fine
+also fine
"""


def test_only_what_is_added_is_looked_at_and_its_place_is_named() -> None:
    assert checked(DIFF) == Checked(
        5,
        1,
        [
            "a.py:2: a leftover of debugging",
            "a.py:3: what looks like a key",
            "a.py:4: blanks at the end of the line",
            "a.py:5: a mark of a conflict",
        ],
    )


def test_nothing_is_nothing() -> None:
    assert checked("") == Checked(0, 0, [])
