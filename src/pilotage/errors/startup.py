"""Errors of the program itself, and all problems of an application as one error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pilotage.errors.base import PilotageError
from pilotage.values import value


class StartupError(PilotageError):
    """Base of the errors of the program itself; nothing has run yet."""

    message: ClassVar[str] = "The program cannot start."
    code: ClassVar[str] = "startup_error"


class PodDefinitionError(StartupError):
    """A class or factory cannot be a pod."""

    message: ClassVar[str] = "The pod cannot be defined."
    code: ClassVar[str] = "pod_definition_error"


class AgentDefinitionError(StartupError):
    """A value, a tool or an agent contradicts the agent contract."""

    message: ClassVar[str] = "The agent contract cannot be defined."
    code: ClassVar[str] = "agent_definition_error"


class PluginError(StartupError):
    """A plugin or a contribution cannot be found or loaded."""

    message: ClassVar[str] = "The plugin cannot be loaded."
    code: ClassVar[str] = "plugin_error"


class ApplicationStartError(StartupError):
    """An application cannot start; `problems` holds all that is wrong with it.

    Raised through `start_error`, the class is the narrowest family that covers every problem.
    """

    message: ClassVar[str] = "The application cannot start."
    code: ClassVar[str] = "application_start_error"

    def __init__(self, *args: object, problems: Sequence[Problem] = ()) -> None:
        super().__init__(*args)
        self.problems: tuple[Problem, ...] = tuple(problems)


class AgentBootstrapError(ApplicationStartError):
    """An agent of the application failed its validation at start-up."""

    message: ClassVar[str] = "The agents of the application cannot start."
    code: ClassVar[str] = "agent_bootstrap_error"


class AgentPersistenceConfigurationError(AgentBootstrapError):
    """A durable agent has no store for its state, signals, evidence or journal."""

    message: ClassVar[str] = (
        'A durable agent has no persistence. Install it: pip install "pilotage[sqlalchemy]".'
    )
    code: ClassVar[str] = "agent_persistence_configuration_error"


class AgentModelConfigurationError(AgentBootstrapError):
    """An agent needs a model and nothing provides one."""

    message: ClassVar[str] = 'An agent has no model. Run: pip install "pilotage[openai]".'
    code: ClassVar[str] = "agent_model_configuration_error"


@value
class Problem:
    """One reason why an application cannot start: the place, the problem, and the remedy."""

    code: str
    summary: str
    remedy: str
    path: tuple[str, ...] = ()
    family: type[ApplicationStartError] = ApplicationStartError
    detail: object = None

    def __str__(self) -> str:
        where = f"{' -> '.join(self.path)}: " if self.path else ""
        return f"{where}{self.summary}\n{self.remedy}"


def start_error(application: str, problems: Sequence[Problem]) -> ApplicationStartError:
    """Return all problems of one application in one error, of the narrowest family that covers them all."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = [f"{count} in application {application!r}:"]
    for number, problem in enumerate(problems, start=1):
        first, *rest = str(problem).splitlines()
        lines.append(f"  {number}. {first}")
        lines.extend(f"     {line}" for line in rest)
    error = _narrowest_family(problems)("\n".join(lines), problems=problems)
    error.__cause__ = next((p.detail for p in problems if isinstance(p.detail, BaseException)), None)
    return error


def _narrowest_family(problems: Sequence[Problem]) -> type[ApplicationStartError]:
    families = [problem.family for problem in problems] or [ApplicationStartError]
    shared = (c for c in families[0].__mro__ if all(issubclass(family, c) for family in families))
    narrowest = next(shared)
    return narrowest if issubclass(narrowest, ApplicationStartError) else ApplicationStartError
