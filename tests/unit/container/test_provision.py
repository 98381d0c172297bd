"""Ports that say who provides them."""

from __future__ import annotations

from typing import Generic, TypeVar

from pilotage.container.provision import Provision, provided_by, provision_of
from pilotage.errors import AgentModelConfigurationError, ApplicationStartError

T = TypeVar("T")


@provided_by("pilotage[openai]", family=AgentModelConfigurationError)
class Model: ...


class SpecialModel(Model): ...


@provided_by("pilotage[store]")
class Store(Generic[T]): ...


def test_a_port_says_what_to_install_and_which_error_its_absence_is() -> None:
    assert provision_of(Model) == Provision("pilotage[openai]", AgentModelConfigurationError)
    assert provision_of(Store[int]) == Provision("pilotage[store]", ApplicationStartError)


def test_it_speaks_only_for_itself() -> None:
    assert provision_of(SpecialModel) is None
    assert provision_of(int) is None
