"""Which of an application's models a run speaks through, where its caller selects one."""

from __future__ import annotations

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.model import IAgentModel, ModelSelection
from pilotage.container.application import Application
from pilotage.errors import CallerError, ModelNotFoundError, PodNotFoundError
from pilotage.runtime.service.model_check import problems_with
from pilotage.runtime.service.services import Services


def selected_model(app: Application, model_ref: str) -> IAgentModel:
    """The model of this name: that of its pod, else the one that the model itself is known by.

    Raises:
        ModelNotFoundError: there is none, or there are several.
    """
    models = {node.name: app.get(IAgentModel, node.name) for node in app.graph.providers(IAgentModel)}
    if model_ref in models:
        return models[model_ref]
    found = [name for name, model in models.items() if model.capability.model == model_ref]
    if len(found) == 1:
        return models[found[0]]
    if found:
        raise ModelNotFoundError(
            f"{', '.join(map(repr, found))} are all called {model_ref!r}. Select one by the name of its pod."
        )
    known = [f"{name!r} ({model.capability.model!r})" for name, model in models.items()]
    raise ModelNotFoundError(
        f"application {app.name!r} has no model {model_ref!r}. It has {', '.join(known) or 'none'}."
    )


def check_driven(services: Services, definition: AgentDefinition) -> None:
    """Refuse a run that no model would drive, before anything of it is written.

    Raises:
        ModelNotFoundError: the application has several models, and nobody says which one.
    """
    if not definition.is_declarative or definition.agent_id in services.driven:
        return
    try:
        services.model_of(services.instance_of(definition))
    except PodNotFoundError as error:
        names = [node.name for node in services.app.graph.providers(IAgentModel)]
        raise ModelNotFoundError(
            f"nobody says which model drives {definition.agent_id!r}: there are {', '.join(map(repr, names))}. Inject "
            "one of them into the agent, or select one: RunAgentInput(model_selection=ModelSelection(...))."
        ) from error
    services.driven.add(definition.agent_id)


def selection_of(services: Services, definition: AgentDefinition, selection: ModelSelection) -> str:
    """The model that an input selects for a run of the agent.

    Raises:
        ModelNotFoundError: the application has no such model.
        CallerError: the agent uses the models it injects, or the model cannot do what the agent asks of it.
    """
    wanted = selection.model_ref
    if not definition.is_declarative:
        raise CallerError(
            f"{definition.target.__name__} has an execute() of its own, which uses the models it injects. "
            f"Leave model_selection={wanted!r} out."
        )
    model = selected_model(services.app, wanted)
    if problems := problems_with(model, definition, services.instance_of(definition), services):
        raise CallerError("\n".join(map(str, problems)))
    return wanted
