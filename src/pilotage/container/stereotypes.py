"""Stereotypes: pods with a role. All are equal citizens; yours are made the same way."""

from __future__ import annotations

from dataclasses import dataclass

from pilotage.container.pod import Pod


@dataclass(kw_only=True, eq=False)
class UseCase(Pod):
    """Marks a class that does one thing the business asks for."""


@dataclass(kw_only=True, eq=False)
class Controller(Pod):
    """Marks a class through which the outside world drives the application."""


@dataclass(kw_only=True, eq=False)
class Configuration(Pod):
    """Marks a class that holds settings; pods take it instead of single strings and numbers."""
