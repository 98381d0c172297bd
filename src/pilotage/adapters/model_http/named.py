"""Keys and addresses of models by name, from the variables that providers document."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from pilotage.errors import AgentDefinitionError


def text_of(variable: str) -> str | None:
    """Return the text of a variable; None where it is empty."""
    return os.environ.get(variable, "").strip() or None


def key_for(url: str, own: str, variable: str, model: str) -> str | None:
    """Return the key of a variable.

    Raises:
        AgentDefinitionError: there is none, and the address is the provider's own.
    """
    key = text_of(variable)
    if key is None and urlsplit(url).hostname == urlsplit(own).hostname:
        raise AgentDefinitionError(f"the model {model!r} needs a key. Set {variable}.")
    return key
