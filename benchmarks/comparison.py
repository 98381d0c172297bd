"""Ours beside other frameworks: the same scenarios with fake models, each in an environment of its own.

`make bench-peers` makes the environments; without any there is nothing to compare with.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.timing import FULL, Effort

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / ".venv" / "peers"
PEERS = {
    "langgraph": "langgraph_peer",
    "pydantic-ai-slim": "pydantic_ai_peer",
    "openai-agents": "openai_agents_peer",
    "langchain": "langchain_peer",
    "agno": "agno_peer",
    "dbos": "dbos_peer",
}
OURS = ("pilotage_peer", "pilotage_durable_peer")


def measure(effort: Effort = FULL) -> dict[str, float]:
    """The figures of everybody who is there, each with the name and the version in front."""
    there = {name: ENVIRONMENTS / name / "bin" / "python" for name in PEERS}
    there = {name: python for name, python in there.items() if python.exists()}
    if not there:
        return {}
    figures: dict[str, float] = {}
    for module in OURS:
        figures |= figures_of("pilotage", Path(sys.executable), module, effort)
    for name, python in there.items():
        figures |= figures_of(name, python, PEERS[name], effort)
    return figures


def figures_of(name: str, python: Path, module: str, effort: Effort) -> dict[str, float]:
    """What the script of a peer measures."""
    smallest = () if effort is FULL else ("--smallest",)
    command = [str(python), "-m", f"benchmarks.peers.{module}", *smallest]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(told.stdout.splitlines()[-1])
    return {f"{name} {found['version']}: {what}": figure for what, figure in found["figures"].items()}
