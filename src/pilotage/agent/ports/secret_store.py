"""The secrets port: tools receive secrets by reference, at the moment they run."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pilotage.agent.principal import RunContext
from pilotage.safety.fields import SecretRef


class ISecrets(ABC):
    """Hands out secret values. What it handed out is registered with every redactor of the run."""

    @abstractmethod
    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        """The value of a secret for this run.

        Raises:
            PermissionDeniedError: this run may not have the secret, or there is none of that name: the two
                look the same from outside.
        """
