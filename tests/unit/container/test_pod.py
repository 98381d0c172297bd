"""The `@Pod` annotation and stereotypes derived from it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest

from pilotage.container.pod import (
    Configuration,
    Controller,
    Pod,
    Provision,
    Scope,
    UseCase,
    provided_by,
    provision_of,
)
from pilotage.errors import AgentModelConfigurationError, ApplicationStartError, PodDefinitionError


class Bank: ...


@Pod
class Refunds:
    def __init__(self, bank: Later) -> None: ...


class Later: ...


@Pod(name="cheap", scope=Scope.PROTOTYPE, primary=True, order=3)
class CheapBank(Bank): ...


@Pod()
def make_bank() -> Bank:
    return Bank()


@Pod
def open_bank() -> Iterator[Bank]:
    yield Bank()


@Pod
async def open_bank_slowly() -> AsyncGenerator[Bank, None]:
    yield Bank()


@dataclass(kw_only=True, eq=False)
class Versioned(Pod):
    version: int = 1

    def define(self) -> None:
        if self.version < 1:
            raise PodDefinitionError(f"{self.name}: versions begin with 1.")


@Versioned(version=2)
class Second: ...


def test_the_target_is_returned_unchanged_and_carries_its_annotation() -> None:
    assert isinstance(Refunds, type)
    annotation = Pod.get(Refunds)
    assert (annotation.target, annotation.type_, annotation.name) == (Refunds, Refunds, "refunds")
    assert annotation.dependencies["bank"].type_ is Later


def test_options_are_kept() -> None:
    annotation = Pod.get(CheapBank)
    assert (annotation.name, annotation.scope, annotation.primary, annotation.order) == (
        "cheap",
        Scope.PROTOTYPE,
        True,
        3,
    )


@pytest.mark.parametrize("factory", [make_bank, open_bank, open_bank_slowly])
def test_a_factory_provides_what_it_returns_or_yields(factory: object) -> None:
    assert Pod.get(factory).type_ is Bank


def test_an_annotation_is_not_inherited() -> None:
    class Cheaper(CheapBank): ...

    assert not Pod.exists(Cheaper)


def test_a_stereotype_finds_only_its_own() -> None:
    assert Versioned.get(Second).version == 2
    assert Pod.exists(Second)
    assert Versioned.get_or_none(Refunds) is None
    assert [UseCase.exists(Second), Controller.exists(Second), Configuration.exists(Second)] == [False] * 3


def test_a_stereotype_checks_its_own_definition() -> None:
    with pytest.raises(PodDefinitionError, match=r"^third: versions begin with 1\.$"):

        @Versioned(version=0)
        class Third: ...


def test_one_annotation_can_mark_several_targets() -> None:
    prototype = Pod(scope=Scope.PROTOTYPE)

    @prototype
    class One: ...

    @prototype
    class Two: ...

    assert (Pod.get(One).name, Pod.get(Two).name) == ("one", "two")
    assert prototype.target is None


def test_a_scope_may_be_given_by_its_value() -> None:
    @Pod(scope="context")
    class Session: ...

    assert Pod.get(Session).scope is Scope.CONTEXT


def test_instances_carry_no_annotation() -> None:
    assert not Pod.exists(Refunds(Later()))
    assert not Pod.exists(None)


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
