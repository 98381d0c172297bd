"""Tokens by reference: tools ask for them by name when they run; they are in no prompt, no record and no stream."""

from __future__ import annotations

import os

from pilotage import Pod, RunContext
from pilotage.agent import ISecrets, SecretRef
from pilotage.errors import ToolError


@Pod
class EnvironmentSecrets(ISecrets):
    """Finds secrets in the environment of the application, which commands do not get to see."""

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        found = os.environ.get(ref.id)
        if not found:
            raise ToolError(f"there is no {ref.id} here: whoever started the application did not set it")
        return found
