"""`@Pod` and other stereotypes mark what the container makes; `@provided_by` names a package that implements a port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from inspect import isabstract
from typing import Any, ClassVar, Self, TypeVar, cast, get_origin, overload

from pilotage.container.dependency import Dependency, provided_type, read_dependencies
from pilotage.container.names import enumerate_names, snake_case, target_name
from pilotage.container.signature import Making, is_factory, making_of, read_parameters, require_return_type
from pilotage.container.typematch import is_protocol, provided_types
from pilotage.errors import ApplicationStartError, PodDefinitionError
from pilotage.values import value

_PROVISION = "__pilotage_provided_by__"

ClassT = TypeVar("ClassT", bound=type)
_ATTRIBUTE = "__pilotage_pod__"
PodT = TypeVar("PodT")
TargetT = TypeVar("TargetT", bound=Callable[..., Any])


@value
class Provision:
    """The package that implements a port, and the error family when it is missing."""

    requirement: str
    family: type[ApplicationStartError] = ApplicationStartError
    setup: str = ""


def provided_by(
    requirement: str, *, family: type[ApplicationStartError] = ApplicationStartError, setup: str = ""
) -> Callable[[ClassT], ClassT]:
    """Name the package to install when nothing provides the port: `@provided_by("pilotage[sqlalchemy]")`.

    `setup` names a further step, as half a sentence: "name its server in ...".
    """

    def mark(port: ClassT) -> ClassT:
        setattr(port, _PROVISION, Provision(requirement, family, setup))
        return port

    return mark


def provision_of(type_: object) -> Provision | None:
    """Return the provision declared on this port itself, not on a base."""
    port = get_origin(type_) or type_
    found: object = getattr(port, "__dict__", {}).get(_PROVISION)
    return found if isinstance(found, Provision) else None


class Scope(StrEnum):
    """Lifetime of a pod: that of the application, of one injection, or of a context."""

    SINGLETON = "singleton"
    PROTOTYPE = "prototype"
    CONTEXT = "context"


class Stereotype(type):
    """Metaclass of `Pod` and of every stereotype, which lets them decorate with and without parentheses."""

    @overload
    def __call__(cls, target: TargetT, /) -> TargetT: ...
    @overload
    def __call__(cls: type[PodT], **options: Any) -> PodT: ...
    def __call__(cls, *targets: Any, **options: Any) -> Any:
        _refuse_unknown_options(cls, options)
        annotation = super().__call__(**options)
        return annotation(*targets) if targets else annotation


@dataclass(kw_only=True, eq=False)
class Pod(metaclass=Stereotype):
    """Decorator for a class or factory function that is a pod; returns it unchanged.

    A stereotype is a dataclass that derives from `Pod`, usually with fields of its own. It hooks into the
    decoration by overriding `define`, and may bring post-processors that give it its meaning.

    `name`       what qualifiers and `dict[str, T]` call the pod; by default the target's name in snake case
    `scope`      how long the pod lives
    `primary`    whether the pod is preferred where several provide the same type
    `lazy`       whether a singleton is made when it is first asked for instead of at start
    `order`      its place among pods that do not depend on each other, and in collections; low comes first
    """

    target: Any = field(default=None, kw_only=False, repr=False)
    name: str = ""
    scope: Scope = Scope.SINGLETON
    primary: bool = False
    lazy: bool = False
    order: int = 0
    making: Making = field(default=Making.CALL, init=False, repr=False)

    post_processors: ClassVar[tuple[type, ...]] = ()
    """The `IPostProcessor` classes that are registered along with the first pod of the stereotype."""

    def __call__(self, target: TargetT) -> TargetT:
        """Mark the target; the annotation itself is unchanged and may mark others."""
        if _ATTRIBUTE in getattr(target, "__dict__", {}):
            marks = f"@{type(Pod.get(target)).__name__} and @{type(self).__name__}"
            raise PodDefinitionError(f"{target_name(target)} is decorated twice: {marks}. Keep one of them.")
        setattr(target, _ATTRIBUTE, self.applied_to(target))
        return target

    def applied_to(self, target: object) -> Self:
        """Return the definition of the target as a pod, without marking it."""
        pod = copy(self)
        pod.target = target
        _refuse_wrong_target(f"@{type(self).__name__}", target)
        _refuse_wrong_options(pod)
        pod.scope = Scope(self.scope)
        pod.name = self.name or snake_case(target_name(target))
        pod.making = making_of(target)
        read_parameters(target)
        pod.define()
        return pod

    def define(self) -> None:
        """Check and complete the definition; `target` and `name` are set, type hints may not resolve yet."""

    @cached_property
    def type_(self) -> Any:
        """The type the pod provides: the class, or the type that the factory returns or yields."""
        return provided_type(self.target)

    @cached_property
    def provided_types(self) -> tuple[object, ...]:
        """Every type under which the pod is found, its own first."""
        return tuple(provided_types(self.type_))

    @cached_property
    def dependencies(self) -> Mapping[str, Dependency]:
        """The dependencies of the pod, by parameter; raises `PodDefinitionError` for an unresolvable hint."""
        return {} if self.making is Making.GIVEN else read_dependencies(self.target)

    @classmethod
    def get(cls, target: object) -> Self:
        """Return the annotation of the target itself; a base class's annotation does not count."""
        annotation = cls.get_or_none(target)
        if annotation is None:
            # Nothing is decorated with the base of a stereotype: AgentDefinition is the base of Agent.
            mark, its_class = f"@{cls.__name__.removesuffix('Definition')}", type(target)
            if cls.exists(its_class):
                raise PodDefinitionError(
                    f"this is an instance of {target_name(its_class)}. Give the class itself."
                )
            raise PodDefinitionError(
                f"{target_name(target)} is not decorated with {mark}. Write {mark} above it."
            )
        return annotation

    @classmethod
    def get_or_none(cls, target: object) -> Self | None:
        """Return the annotation of the target itself if it is of this stereotype."""
        annotation: object = getattr(target, "__dict__", {}).get(_ATTRIBUTE)
        if not isinstance(annotation, cls):
            return None
        if annotation.target is not target:
            mark = f"@{type(annotation).__name__}"
            raise PodDefinitionError(
                f"{target_name(target)}: a decorator above {mark} replaced the class, "
                f"as @dataclass(slots=True) does. Write {mark} above that decorator."
            )
        return annotation

    @classmethod
    def exists(cls, target: object) -> bool:
        """Return whether the target itself carries an annotation of this stereotype."""
        return cls.get_or_none(target) is not None


def given(type_: type, name: str) -> Pod:
    """Return the definition of a ready instance of a class; the instance itself belongs to an application."""
    pod = Pod(name=name)
    pod.target, pod.making = type_, Making.GIVEN
    return pod


def _refuse_wrong_target(mark: str, target: object) -> None:
    if is_factory(target):
        require_return_type(target)
    elif not isinstance(target, type):
        raise PodDefinitionError(
            f"{mark} decorates a class or a function, not {target!r}. Options are keywords: {mark}(name=...)."
        )
    elif is_protocol(target) or isabstract(target):
        abstract = enumerate_names(sorted(cast("Iterable[str]", getattr(target, "__abstractmethods__", ()))))
        what = "a Protocol" if is_protocol(target) else f"abstract ({abstract})"
        raise PodDefinitionError(
            f"{target.__name__} is {what} and cannot be made. "
            f"Write {mark} above the class that implements it."
        )


def _refuse_unknown_options(stereotype: Any, options: Iterable[str]) -> None:
    known = [option.name for option in fields(stereotype) if option.init and option.name != "target"]
    for option in options:
        if option not in known:
            raise PodDefinitionError(
                f"@{stereotype.__name__} has no option {option!r}. It has {enumerate_names(known)}."
            )


def _refuse_wrong_options(pod: Pod) -> None:
    owner = target_name(pod.target)
    if pod.scope not in set(Scope):
        scopes = enumerate_names([f"Scope.{scope.name}" for scope in Scope], "or")
        raise PodDefinitionError(f"{owner}: there is no scope {pod.scope!r}. Use {scopes}.")
    if pod.name and not pod.name.strip():
        raise PodDefinitionError(f"{owner}: the name is blank. Give a visible name, or leave it out.")
    if pod.lazy and pod.scope != Scope.SINGLETON:
        raise PodDefinitionError(
            f"{owner}: lazy=True means nothing in the scope {pod.scope}, "
            "whose pods are made when they are asked for. Leave it out."
        )


@dataclass(kw_only=True, eq=False)
class UseCase(Pod):
    """Decorator for a class that implements one use case."""


@dataclass(kw_only=True, eq=False)
class Controller(Pod):
    """Decorator for a class through which the outside world drives the application."""


@dataclass(kw_only=True, eq=False)
class Configuration(Pod):
    """Decorator for a class of settings, which pods take instead of single strings and numbers."""
