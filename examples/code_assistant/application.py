"""Everything put together: `pilotage serve examples.code_assistant.application:app`."""

from __future__ import annotations

import os
from pathlib import Path

from examples.code_assistant.assistant import CodeAssistant
from examples.code_assistant.declarative import DeclarativeCodeAssistant
from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.reviewer import Reviewer
from examples.code_assistant.serving import AssistantController
from examples.code_assistant.shell_tools import ShellTools
from examples.code_assistant.tokens import EnvironmentSecrets
from examples.code_assistant.workspace import Workspace
from examples.code_assistant.workspace_tools import WorkspaceTools
from pilotage import Application
from pilotage.adapters.sqlalchemy import DatabaseSettings
from pilotage.models import OfflineModel


def code_assistant(folder: Path, *pods: object) -> Application:
    """The assistant in a folder, with its runs in an SQLite file there unless the environment names another store."""
    here = {"PILOTAGE_DATABASE_URL": f"sqlite:///{folder}/.pilotage/pilotage.db"}
    app = Application("code").add(CodeAssistant, DeclarativeCodeAssistant, Reviewer)
    app.add(Workspace(folder), WorkspaceTools, ShellTools, GitTools, EnvironmentSecrets, AssistantController)
    return app.add(DatabaseSettings.from_environment(here | dict(os.environ)), *pods).load_plugins()


def offline_model(tokens_per_second: float | None = None) -> tuple[OfflineModel, ...]:
    """The offline model, unless the environment names a server; then `load_plugins()` brings the model."""
    if os.environ.get("PILOTAGE_MODEL_BASE_URL"):
        return ()
    return (OfflineModel(tokens_per_second=tokens_per_second),)


app = code_assistant(Path.cwd(), *offline_model())
