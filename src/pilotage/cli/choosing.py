"""Which application a command works on: the named one, the project's, the one beside an agent, or one made for it."""

from __future__ import annotations

from pilotage.agent.definition import AgentDefinition
from pilotage.cli.configured import APP, configured_application
from pilotage.cli.target import TargetNotFoundError, agent_in, applications_beside, load
from pilotage.container.application import Application
from pilotage.errors import CallerError
from pilotage.models.default import default_model
from pilotage.runtime.quick import asks_for_model, with_pods_asked_for
from pilotage.values import value


@value
class Chosen:
    """An application, and what to write on a command line to mean it again; "" where nothing has to be written."""

    app: Application
    option: str = ""


def chosen_application(option: str | None) -> Chosen | None:
    """The application of the option, or of the project; None where neither names one.

    Raises:
        TargetNotFoundError: what is named is neither an application nor an agent.
    """
    target = option or configured_application()
    if target is None:
        return None
    found, written = load(target), f"--app {target}" if option else ""
    if isinstance(found, Application):
        return Chosen(found, written)
    definition = agent_in(found)
    if definition is None:
        raise TargetNotFoundError(f"{target!r} is a {type(found).__name__}, not an Application and no agent.")
    return _around(definition, target)


def application_to_act(option: str | None) -> Chosen:
    """The same, where one is needed.

    Raises:
        CallerError: nobody says which application is meant.
    """
    chosen = chosen_application(option)
    if chosen is None:
        raise CallerError(
            "this needs the application whose run it is: its agents and tools. Name it with --app MODULE:NAME, in "
            f"{APP}, or as app in [tool.pilotage] of pyproject.toml."
        )
    return chosen


def application_to_run(agent: str, option: str | None) -> tuple[Chosen, AgentDefinition]:
    """The application in which an agent runs, and the agent: `MODULE:CLASS`, or the name of one of its agents.

    Raises:
        TargetNotFoundError: there is no such agent.
    """
    if ":" not in agent:
        chosen = application_to_act(option)
        return chosen, _agent_named(agent, chosen.app)
    definition = agent_in(load(agent))
    if definition is None:
        raise TargetNotFoundError(f"{agent!r} is no agent. Name a class with @Agent above it.")
    named = chosen_application(option)
    if named is not None and (option or named.app.contains(definition.target)):
        return named, definition
    return _around(definition, agent), definition


def _around(definition: AgentDefinition, target: str) -> Chosen:
    """The one application beside the agent, or one that is made for it as `run` makes it, with the plugins."""
    beside = applications_beside(definition.target)
    if len(beside) == 1:
        ((found, app),) = beside
        return Chosen(app, f"--app {found}")
    app = Application(definition.agent_id).add(definition.target).load_plugins()
    if asks_for_model(with_pods_asked_for(app).graph):
        app.add(*default_model())
    return Chosen(app, f"--app {target}")


def _agent_named(name: str, app: Application) -> AgentDefinition:
    pods = [node.pod for node in app.graph.nodes]
    known = {pod.agent_id: pod for pod in pods if isinstance(pod, AgentDefinition)}
    by_class = {pod.target.__name__: pod for pod in known.values()}
    found = known.get(name) or by_class.get(name)
    if found is None:
        raise TargetNotFoundError(
            f"application {app.name!r} has no agent {name!r}. It has: {', '.join(known) or 'none'}."
        )
    return found
