"""The port by which an application chooses the model of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pilotage.agent.ports.model import ModelSelection
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunAgentInput


class IAgentModelResolver(ABC):
    """Chooses the model of each run whose loop a model drives: by its input, its tenant, its metadata.

    It is asked once, before the run is recorded. The choice is part of the run's start: an attempt that resumes the run
    does not ask again, and the child runs of the run use the same model. Agents with an `execute()` of their own use
    the models that they inject; it is not asked for them, but for their child runs.
    """

    @abstractmethod
    async def resolve(
        self, agent: str, run_input: RunAgentInput, principal: Principal
    ) -> ModelSelection | None:
        """Return the model of a run of the agent, by the name of its pod or of the model.

        `run_input.model_selection` is what the caller selected, in words of the caller: only the answer must be a model
        of the application. None means that there is nothing to choose: the run uses the model that its caller selected,
        that its agent injects, or that the application has.

        Raises:
            CallerError: the caller may not have what it selected; nothing was started.
        """
