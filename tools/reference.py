"""Write the pages of docs/reference, and the type stubs of packages with a table of names, from what they export."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import UnionType
from typing import Union, get_args, get_origin

from pilotage.container.names import enumerate_names, type_name
from pilotage.exports import modules_of

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
STUBS = {
    "pilotage": ROOT / "src" / "pilotage" / "__init__.pyi",
    "pilotage.agent": ROOT / "src" / "pilotage" / "agent" / "__init__.pyi",
    "pilotage.errors": ROOT / "src" / "pilotage" / "errors" / "__init__.pyi",
}
PACKAGES = {
    "pilotage": ("pilotage.md", "The names most people need, all of them also in the packages below."),
    "pilotage.agent": ("agent.md", "The agent contract: values, ports and tools."),
    "pilotage.runtime": (
        "runtime.md",
        "Durable execution: the run service, named steps, what ends an attempt.",
    ),
    "pilotage.architectures": (
        "architectures.md",
        "Loop strategies for agents without an `execute()` of their own.",
    ),
    "pilotage.models": (
        "models.md",
        "Models that need no adapter: the offline model, and wrappers that change one thing.",
    ),
    "pilotage.context": ("context.md", "What the model gets to see: assembling, budgets, compaction."),
    "pilotage.testing": ("testing.md", "Doubles and kits for tests; never part of a running application."),
    "pilotage.container": ("container.md", "Dependency injection for class stereotypes."),
    "pilotage.safety": (
        "safety.md",
        "Sensitive fields, exposure policies, guards, streaming redaction, trust.",
    ),
    "pilotage.errors": ("errors.md", "The error families, by who must act."),
    "pilotage.inbound": (
        "inbound.md",
        "What inbound adapters of every transport share: bodies, views, problems, authentication, limits.",
    ),
    "pilotage.adapters.fastapi": (
        "adapters-fastapi.md",
        'Runs and controllers over HTTP, in any FastAPI application: `pip install "pilotage[fastapi]"`.',
    ),
    "pilotage.adapters.asgi": (
        "adapters-asgi.md",
        "The HTTP layer of all adapters: authentication, limits, problems, streams; needs Starlette.",
    ),
    "pilotage.adapters.agui": (
        "adapters-agui.md",
        'Agents behind AG-UI, with human approval: `pip install "pilotage[agui]"`.',
    ),
    "pilotage.adapters.mcp_server": (
        "adapters-mcp-server.md",
        'Agents as MCP tools: `pip install "pilotage[mcp]"`.',
    ),
    "pilotage.adapters.typer": (
        "adapters-typer.md",
        'Commands of an application\'s own command line, as controllers: `pip install "pilotage[cli]"`.',
    ),
    "pilotage.adapters.openai": (
        "adapters-openai.md",
        'Models of vLLM and every OpenAI-compatible server: `pip install "pilotage[openai]"`.',
    ),
    "pilotage.adapters.anthropic": (
        "adapters-anthropic.md",
        'Models of Anthropic, and of every server with `/v1/messages`: `pip install "pilotage[anthropic]"`.',
    ),
    "pilotage.adapters.mcp": (
        "adapters-mcp.md",
        'Tools of MCP servers, as tools of agents: `pip install "pilotage[mcp]"`.',
    ),
    "pilotage.adapters.egress": (
        "adapters-egress.md",
        'A guarded HTTP client for tools: `pip install "pilotage[egress]"`.',
    ),
    "pilotage.adapters.opentelemetry": (
        "adapters-opentelemetry.md",
        'Spans and metrics of runs for OpenTelemetry: `pip install "pilotage[otel]"`.',
    ),
    "pilotage.adapters.sealing": (
        "adapters-sealing.md",
        'Sealing of journal records with a key of the application: `pip install "pilotage[sealing]"`.',
    ),
    "pilotage.adapters.sqlalchemy": (
        "adapters-sqlalchemy.md",
        'Durable runs in SQLite and PostgreSQL: `pip install "pilotage[sqlalchemy]"`.',
    ),
}


def main() -> None:
    """One page per package: a table of its names, then their documentation."""
    for package, (page, purpose) in PACKAGES.items():
        (PAGES / page).write_text(render(package, purpose))
    for package, path in STUBS.items():
        path.write_text(stub(package))


def render(package: str, purpose: str) -> str:
    """The page of one package."""
    module = import_module(package)
    rows = [f"| {linked(package, name)} | {summary(getattr(module, name))} |" for name in module.__all__]
    table = "\n".join(["| name | what it is |", "|---|---|", *rows])
    return f"# `{package}`\n\n{purpose}\n\n{table}\n\n{details(package)}"


def details(package: str) -> str:
    """The documentation of the names; a function that has the name of its module is asked for by its full name."""
    names = import_module(package).__all__
    options = [f"inherited_members: [{', '.join(found)}]"] if (found := inherited(package)) else []
    if package in STUBS:
        own = [name for name in names if address(package, name) == f"#{package}.{name}"]
        return documented(package, *options, f"members: [{', '.join(own)}]")
    hidden = [address(package, name) for name in names if is_module(package, name)]
    extra = ["\n" + documented(each[1:], "show_root_heading: true") for each in hidden if each]
    return documented(package, *options) + "".join(extra)


def documented(name: str, *options: str) -> str:
    """The directive that documents a package or a function."""
    return "\n".join(
        [f"::: {name}", *(["    options:"] if options else []), *(f"      {each}" for each in options), ""]
    )


def inherited(package: str) -> list[str]:
    """The public members that exported classes have from bases which no package exports, so no other page has them."""
    return sorted(
        {
            name
            for exported_name in import_module(package).__all__
            if (address(package, exported_name) or "").startswith("#")
            and inspect.isclass(each := getattr(import_module(package), exported_name))
            for base in each.__mro__[1:]
            if base.__module__.startswith(f"{package}.") and base not in exported()
            for name, member in vars(base).items()
            if not name.startswith("_") and inspect.isfunction(member)
        }
    )


@cache
def exported() -> set[object]:
    """Everything that the packages export and that can be a base."""
    found = (getattr(import_module(each), name) for each in PACKAGES for name in import_module(each).__all__)
    return {each for each in found if inspect.isclass(each)}


def linked(package: str, name: str) -> str:
    """The name in the table: a link to its documentation, if it has one."""
    found = address(package, name)
    return f"[`{name}`]({found})" if found else f"`{name}`"


def address(package: str, name: str) -> str | None:
    """Where the documentation of a class or function is; for `pilotage` usually on the page of a package below."""
    value = getattr(import_module(package), name)
    if not (inspect.isclass(value) or inspect.isfunction(value)) or value.__name__ != name:
        return None
    if package == "pilotage":
        for below, (page, _) in PACKAGES.items():
            if below != package and getattr(import_module(below), name, None) is value:
                return f"{page}{address(below, name)}"
    return f"#{value.__module__}.{name}" if is_module(package, name) else f"#{package}.{name}"


def is_module(package: str, name: str) -> bool:
    """Whether the package has a module of this name."""
    return find_spec(f"{package}.{name}") is not None


def summary(value: object) -> str:
    """The first line of a docstring; of plain values and aliases what they are."""
    if isinstance(value, str | int):
        return f"the {'text' if isinstance(value, str) else 'number'} `{value}`"
    if inspect.isclass(value) or inspect.isfunction(value):
        return (inspect.getdoc(value) or "").partition("\n")[0].replace("|", r"\|")
    if get_origin(value) in (Union, UnionType):
        return f"one of {enumerate_names([f'`{type_name(each)}`' for each in get_args(value)], 'or')}"
    return "a type alias" if get_origin(value) else f"a constant, of the type `{type(value).__name__}`"


def stub(package: str) -> str:
    """Return the types of the names of a package, which are imported when they are first used."""
    modules = modules_of(vars(import_module(package))["_NAMES"])
    pairs = sorted((module, name) for name, module in modules.items())
    lines = [f"from {module} import {name} as {name}" for module, name in pairs]
    head = f"# The types of the names of `{package}`. Written by `make reference`.\n# fmt: off\n\n"
    return head + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
