"""The review of a server's tools: which of them are offered, which are off, and why. Pure.

A definition that was not accepted is not shown to a model. `accept` of a server says how one is accepted:

- None: a person accepts every tool (`pilotage mcp approve`);
- "first use": the first list that is seen is accepted, a person accepts what is new or changed later;
- "sha256:...": the code accepts one list, by its digest, and no pins are looked at.

Names are compared as models see them. A tool whose name is that of another tool, or looks like it, is off: it would be
called in the place of the other.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from pilotage.agent.ports.tool_pins import ToolPin
from pilotage.agent.tools.definition_text import visible
from pilotage.agent.tools.listed import ListedTool, digest_of_list
from pilotage.errors import AgentDefinitionError
from pilotage.values import value

FIRST_USE = "first use"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_FIELDS = ("description", "input_schema", "output_schema", "hints")
_SEPARATORS = re.compile(r"[\W_]+")
# Letters of other scripts that look like Latin ones in most fonts, then letters and digits that look like each other.
_LOOKS_LIKE = str.maketrans(
    "авгекмнопрстухьһіјѕԁԛԝѵαβγεηικνοπρτυχωϲıɑɡ",
    "abrekmhonpctyxbhijsdqwvabyenikvonptuxwciag",
)
_ALIKE = str.maketrans("01i|\u01c0", "ollll")


class ToolStanding(StrEnum):
    """Where a tool stands: only ACCEPTED tools are offered."""

    ACCEPTED = "accepted"
    NEW = "new"
    CHANGED = "changed"
    RENAMED = "renamed"
    SHADOWED = "shadowed"
    GONE = "gone"


@value
class ReviewedTool:
    """A tool of a server, where it stands and why.

    `listed` is its definition now, None where it is gone. `pin` is what was accepted: of the same name, or of the name
    that a renamed tool had. A tool with the very name of another one cannot be accepted.
    """

    name: str
    standing: ToolStanding
    listed: ListedTool | None
    pin: ToolPin | None = None
    why: str = ""
    can_be_accepted: bool = True

    @property
    def is_offered(self) -> bool:
        """Whether models may see and call it."""
        return self.standing is ToolStanding.ACCEPTED

    @property
    def is_off(self) -> bool:
        """Whether the server lists it and a person can accept it."""
        return self.listed is not None and not self.is_offered


@value
class ToolReview:
    """The review of the list of one server, in the order of the list; tools that are gone come last."""

    source: str
    tools: tuple[ReviewedTool, ...]
    digest: str
    """The digest of the whole list, as `accept` takes it."""
    is_by_code: bool = False
    """Whether the code accepts the list, and no person its tools."""

    @property
    def offered(self) -> Sequence[ListedTool]:
        """The tools that models may see and call."""
        return [each.listed for each in self.tools if each.listed is not None and each.is_offered]

    @property
    def off(self) -> Sequence[ReviewedTool]:
        """The tools that the server lists and no model gets to see."""
        return [each for each in self.tools if each.is_off]

    def named(self, name: str) -> ReviewedTool | None:
        """Return the first tool of a name."""
        return next((each for each in self.tools if each.name == name), None)


def check_accept(source: str, accept: str | None) -> None:
    """Check that a server's `accept` is one that `review_tools` knows.

    Raises:
        AgentDefinitionError: it is not.
    """
    if accept in (None, FIRST_USE) or _DIGEST.fullmatch(str(accept)):
        return
    raise AgentDefinitionError(
        f"server {source!r}: accept={accept!r} is no rule. Use accept={FIRST_USE!r}, the digest of a whole list "
        'as "pilotage mcp list" shows it (accept="sha256:..."), or leave it out: then people accept each tool.'
    )


def review_tools(
    source: str,
    listed: Sequence[ListedTool],
    pins: Sequence[ToolPin] = (),
    *,
    accept: str | None = None,
    taken: Mapping[str, str] | None = None,
    offered_as: Callable[[str], str] = str,
) -> ToolReview:
    """Return which of a server's tools are offered, which are off, and why.

    `pins` are those of this source. With `accept="first use"` the caller pins `first_to_pin` before and gives the pins
    that come back. `taken` are the names that models know other tools by, with the owner of each in words. `offered_as`
    gives the name that models know a tool of this server by.

    Raises:
        AgentDefinitionError: `accept` is no rule.
    """
    check_accept(source, accept)
    digest = digest_of_list(listed)
    pinned = {pin.tool: pin for pin in pins}
    shadows = _shadows(listed, taken or {}, offered_as)
    by_code = accept is not None and accept != FIRST_USE
    names = {tool.name for tool in listed}
    missing = [pin for pin in pins if pin.tool not in names]
    former = {pin.definition.content_digest: pin for pin in missing}
    reviewed: list[ReviewedTool] = []
    for tool in listed:
        if by_code:
            fits = None if digest == accept else _other_list(digest, accept)
            decided = _by_code(tool, shadows.get(tool.name), fits)
        else:
            decided = _by_pins(tool, shadows.get(tool.name), pinned, former)
        reviewed.append(decided)
    renamed = {each.pin.tool for each in reviewed if each.standing is ToolStanding.RENAMED and each.pin}
    if not by_code:
        reviewed += [_gone(pin) for pin in missing if pin.tool not in renamed]
    return ToolReview(source, tuple(reviewed), digest, by_code)


def first_to_pin(
    source: str,
    listed: Sequence[ListedTool],
    *,
    taken: Mapping[str, str] | None = None,
    offered_as: Callable[[str], str] = str,
) -> Sequence[ListedTool]:
    """Return the tools of the first list that "first use" accepts: all but those that a person has to look at."""
    found = review_tools(source, listed, taken=taken, offered_as=offered_as)
    return [each.listed for each in found.tools if each.listed and each.standing is ToolStanding.NEW]


def changed_fields(old: ListedTool, new: ListedTool) -> Sequence[str]:
    """Return which parts of a definition differ, but for its name."""
    return [name for name in _FIELDS if getattr(old, name) != getattr(new, name)]


def skeleton(name: str) -> str:
    """Return what a name looks like: equal for names that a reader may take for each other."""
    plain = unicodedata.normalize("NFKD", name).casefold()
    letters = "".join(each for each in plain if unicodedata.category(each) not in ("Mn", "Cf"))
    alike = letters.translate(_LOOKS_LIKE).translate(_ALIKE)
    return _SEPARATORS.sub("", alike).replace("rn", "m").replace("vv", "w")


@value
class _Shadow:
    """Another tool with the name of this one, or with one that looks like it; only the latter can be accepted."""

    why: str
    is_same: bool


def _shadows(
    listed: Sequence[ListedTool], taken: Mapping[str, str], offered_as: Callable[[str], str]
) -> Mapping[str, _Shadow]:
    """Return the tools of a list that shadow another one, by their names in the list."""
    others = {skeleton(name): (name, owner) for name, owner in taken.items()}
    number = Counter(tool.name for tool in listed)
    looks = Counter(skeleton(offered_as(name)) for name in number)
    found: dict[str, _Shadow] = {}
    for name, times in number.items():
        offered = offered_as(name)
        look = skeleton(offered)
        if times > 1:
            found[name] = _Shadow(f"the server lists {times} tools of this name", is_same=True)
        elif offered in taken:
            found[name] = _Shadow(f"{taken[offered]} has a tool of this name", is_same=True)
        elif look in others:
            other, owner = others[look]
            found[name] = _Shadow(f"its name looks like {visible(other)!r} of {owner}", is_same=False)
        elif looks[look] > 1:
            found[name] = _Shadow("its name looks like that of another tool of this server", is_same=False)
    return found


def _by_pins(
    tool: ListedTool,
    shadow: _Shadow | None,
    pinned: Mapping[str, ToolPin],
    formers: Mapping[str, ToolPin],
) -> ReviewedTool:
    pin = pinned.get(tool.name)
    is_accepted = pin is not None and pin.digest == tool.digest
    if shadow is not None and not (is_accepted and not shadow.is_same):
        can_be = not shadow.is_same
        return ReviewedTool(tool.name, ToolStanding.SHADOWED, tool, pin, shadow.why, can_be_accepted=can_be)
    if is_accepted:
        return ReviewedTool(tool.name, ToolStanding.ACCEPTED, tool, pin)
    if pin is not None:
        why = f"changed since it was accepted: {', '.join(changed_fields(pin.definition, tool))}"
        return ReviewedTool(tool.name, ToolStanding.CHANGED, tool, pin, why)
    former = formers.get(tool.content_digest)
    if former is not None:
        why = f"was accepted under the name {visible(former.tool)!r}"
        return ReviewedTool(tool.name, ToolStanding.RENAMED, tool, former, why)
    return ReviewedTool(tool.name, ToolStanding.NEW, tool, None, "not accepted yet")


def _by_code(tool: ListedTool, shadow: _Shadow | None, misfit: str | None) -> ReviewedTool:
    if misfit is not None:
        return ReviewedTool(tool.name, ToolStanding.CHANGED, tool, None, misfit, can_be_accepted=False)
    if shadow is not None and shadow.is_same:
        return ReviewedTool(tool.name, ToolStanding.SHADOWED, tool, None, shadow.why, can_be_accepted=False)
    return ReviewedTool(tool.name, ToolStanding.ACCEPTED, tool)


def _other_list(digest: str, accept: str | None) -> str:
    return f"the list has the digest {digest}, and the code accepts {accept}"


def _gone(pin: ToolPin) -> ReviewedTool:
    return ReviewedTool(pin.tool, ToolStanding.GONE, None, pin, "the server does not list it any more")
