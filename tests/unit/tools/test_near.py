"""Which tests are close to a change."""

from __future__ import annotations

import pytest
from tools.near import near

IMPORTS = {
    "tests/behaviour/test_limits.py": frozenset({"pilotage", "pilotage.runtime.budget.limits"}),
    "tests/unit/cli/test_screen.py": frozenset({"pilotage.cli.screen"}),
    "tests/crash/test_pairs.py": frozenset({"tests.crash.stories"}),
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([], ["tests/architecture"]),
        (
            ["src/pilotage/runtime/budget/limits.py"],
            [
                "tests/architecture",
                "tests/behaviour/test_limits.py",
                "tests/programs",
                "tests/unit/runtime/budget",
            ],
        ),
        (
            ["src/pilotage/runtime/door/door.py"],
            ["tests/architecture", "tests/crash", "tests/programs", "tests/unit/runtime/door"],
        ),
        (
            ["src/pilotage/agent/ports/model.py"],
            ["tests/architecture", "tests/conformance", "tests/programs", "tests/unit/agent/ports"],
        ),
        (["tests/crash/stories.py"], ["tests/architecture", "tests/crash/test_pairs.py"]),
        (["tests/unit/test_ids.py"], ["tests/architecture", "tests/unit/test_ids.py"]),
        (["docs/index.md", "README.md"], ["tests/architecture", "tests/docs"]),
        (["pyproject.toml"], ["tests/architecture"]),
    ],
)
def test_close_tests_are_those_that_use_what_changed(changed: list[str], expected: list[str]) -> None:
    assert near(changed, IMPORTS) == expected
