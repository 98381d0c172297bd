"""The small repository of the demo: a misspelt word, a test that fails because of it, a key in a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from examples.code_assistant.processes import clean_environment

KEY = "sk-0a1b2c3d4e5f6a7b8c9d"
COMMITTED = "committed"  # written by the hook: the commit is made, and the hook still runs

FILES = {
    "greeting.py": 'def greet(name: str) -> str:\n    return f"Helo, {name}."\n',
    "test_greeting.py": (
        "import unittest\n\nfrom greeting import greet\n\n\nclass Greeting(unittest.TestCase):\n"
        '    def test_a_greeting_is_spelt_well(self) -> None:\n        self.assertEqual(greet("Ada"), "Hello, Ada.")\n'
    ),
    "settings.ini": f"[mail]\nkey = {KEY}\n",
    "publish.sh": 'echo "publishing greeting.py with the token $WORKSPACE_TOKEN"\n',
}
HOOK = f"""#!/bin/sh
echo $$ > .git/{COMMITTED}
sleep 600
"""


def make_repository(root: Path) -> None:
    """Make the repository, with one commit, and a hook that runs long after a commit is made."""
    for name, text in FILES.items():
        (root / name).write_text(text)
    (root / ".gitignore").write_text(".pilotage/\n__pycache__/\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Greet people")
    hook = root / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK)
    hook.chmod(0o755)


def remove_hook(root: Path) -> None:
    """Remove the hook: commits take no longer than they must."""
    (root / ".git" / "hooks" / "post-commit").unlink()


def git(root: Path, *words: str) -> str:
    """Return the output of git."""
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@localhost"]
    alone = clean_environment(root, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    command = ["git", "-C", str(root), *who, *words]
    return subprocess.run(command, env=alone, check=True, capture_output=True, text=True).stdout  # noqa: S603
