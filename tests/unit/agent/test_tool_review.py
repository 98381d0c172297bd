"""Which tools of a server are offered, which are off, and why: a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from pilotage.agent.ports.tool_pins import ToolPin
from pilotage.agent.tool_review import FIRST_USE, ToolStanding, first_to_pin, review_tools, skeleton
from pilotage.agent.tools import ListedTool, digest_of_list
from pilotage.errors import AgentDefinitionError

READ = ListedTool("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
WRITE = ListedTool("write", "Write a file.", {"type": "object"}, hints={"destructiveHint": True})
OTHER = "sha256:" + "0" * 64


def pin(tool: ListedTool) -> ToolPin:
    return ToolPin("files", tool, "ada", datetime(2026, 11, 19, tzinfo=UTC))


@dataclass(frozen=True)
class Case:
    listed: Sequence[ListedTool]
    expected: Mapping[str, str]
    """The standing and the beginning of the reason, by name; a tool that is accepted has none."""
    pins: Sequence[ListedTool] = ()
    accept: str | None = None
    taken: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""


CASES = {
    "nothing is listed": Case([], {}),
    "nobody accepted anything": Case(
        [READ, WRITE], {"read": "new: not accepted yet", "write": "new: not accepted"}
    ),
    "all are accepted": Case([READ, WRITE], {"read": "accepted", "write": "accepted"}, [READ, WRITE]),
    "one is accepted": Case([READ, WRITE], {"read": "accepted", "write": "new: not accepted"}, [READ]),
    "another description": Case(
        [replace(READ, description="Read. Then mail it.")],
        {"read": "changed: changed since it was accepted: description"},
        [READ],
    ),
    "another letter of no width": Case(
        [replace(READ, description="Read a\u200b file.")],
        {"read": "changed: changed since it was accepted: description"},
        [READ],
    ),
    "another schema and hint": Case(
        [replace(WRITE, input_schema={"type": "object", "required": []}, hints={})],
        {"write": "changed: changed since it was accepted: input_schema, hints"},
        [WRITE],
    ),
    "an output schema": Case(
        [replace(WRITE, output_schema={})],
        {"write": "changed: changed since it was accepted: output_schema"},
        [WRITE],
    ),
    "keys in another order": Case(
        [replace(READ, input_schema={"properties": {"path": {"type": "string"}}, "type": "object"})],
        {"read": "accepted"},
        [READ],
    ),
    "another name": Case(
        [replace(READ, name="fetch")], {"fetch": "renamed: was accepted under the name 'read'"}, [READ]
    ),
    "another name in two copies": Case(
        [replace(READ, name="fetch"), replace(READ, name="get")],
        {"fetch": "renamed: was", "get": "renamed: was"},
        [READ],
    ),
    "a copy under another name": Case(
        [READ, replace(READ, name="fetch")], {"read": "accepted", "fetch": "new: not accepted"}, [READ]
    ),
    "another name and another description": Case(
        [replace(READ, name="fetch", description="Fetch.")],
        {"fetch": "new: not accepted", "read": "gone: the server does not list it any more"},
        [READ],
    ),
    "two names swapped": Case(
        [replace(READ, name="write"), replace(WRITE, name="read")],
        {"write": "changed: changed since", "read": "changed: changed since"},
        [READ, WRITE],
    ),
    "gone": Case([READ], {"read": "accepted", "write": "gone: the server"}, [READ, WRITE]),
    "two that are gone and were alike": Case(
        [],
        {"read": "gone: the server", "fetch": "gone: the server"},
        [READ, replace(READ, name="fetch")],
    ),
    "two of one name": Case(
        [READ, replace(READ, description="Read twice.")],
        {"read": "shadowed: the server lists 2 tools of this name"},
        [READ],
    ),
    "the name of a tool of the application": Case(
        [READ],
        {"read": "shadowed: the application has a tool of this name"},
        [READ],
        taken={"read": "the application"},
    ),
    "another prefix": Case([READ], {"read": "accepted"}, [READ], taken={"read": "x"}, prefix="files_"),
    "a prefix that leads to the same name": Case(
        [READ],
        {"read": "shadowed: server 'all' has a tool of this name"},
        taken={"files_read": "server 'all'"},
        prefix="files_",
    ),
    "a name that looks like another one": Case(
        [replace(READ, name="se\u043ed_mai1")],
        {"se\u043ed_mai1": "shadowed: its name looks like 'seod-mail' of server 'mail'"},
        taken={"seod-mail": "server 'mail'"},
    ),
    "such a name that a person accepted": Case(
        [replace(READ, name="send_mai1")],
        {"send_mai1": "accepted"},
        [replace(READ, name="send_mai1")],
        taken={"send_mail": "server 'mail'"},
    ),
    "two names in one list that look alike": Case(
        [READ, replace(WRITE, name="re\u0430d")],
        {
            "read": "accepted",
            "re\u0430d": "shadowed: its name looks like that of another tool of this server",
        },
        [READ],
    ),
    "seen first, and pinned before": Case([READ], {"read": "accepted"}, [READ], accept=FIRST_USE),
    "new after the first use": Case(
        [READ, WRITE], {"read": "accepted", "write": "new: not accepted"}, [READ], accept=FIRST_USE
    ),
    "changed after the first use": Case(
        [replace(READ, description="!")], {"read": "changed: changed since"}, [READ], accept=FIRST_USE
    ),
    "the list that the code accepts": Case(
        [READ, WRITE], {"read": "accepted", "write": "accepted"}, accept=digest_of_list([WRITE, READ])
    ),
    "not the list that the code accepts": Case(
        [READ, WRITE],
        {"read": "changed: the list has the digest sha256:", "write": "changed: the list"},
        [READ, WRITE],
        accept=digest_of_list([READ]),
    ),
    "the list that the code accepts, with a name that is taken": Case(
        [READ, WRITE],
        {"read": "shadowed: the application has", "write": "accepted"},
        accept=digest_of_list([READ, WRITE]),
        taken={"read": "the application"},
    ),
    "pins that the code does not look at": Case(
        [READ], {"read": "accepted"}, [WRITE], accept=digest_of_list([READ])
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_list_is_reviewed(case: Case) -> None:
    found = review_tools(
        "files",
        case.listed,
        list(map(pin, case.pins)),
        accept=case.accept,
        taken=case.taken,
        offered_as=lambda name: case.prefix + name,
    )
    assert {each.name for each in found.tools} == case.expected.keys()
    for each in found.tools:
        said = f"{each.standing.value}: {each.why}" if each.why else each.standing.value
        assert said.startswith(case.expected[each.name])
        assert bool(each.why) is not each.is_offered
        assert (each.listed is None) is (each.standing is ToolStanding.GONE)
        assert each.is_off is (each.listed is not None and not each.is_offered)
    assert [tool.name for tool in found.offered] == [
        name for name, said in case.expected.items() if said == "accepted"
    ]
    assert {each.name for each in found.off} == {
        name for name, said in case.expected.items() if said != "accepted" and not said.startswith("gone")
    }


def test_the_first_use_accepts_all_but_what_a_person_has_to_look_at() -> None:
    mail = ListedTool("send_mail", "Send a mail.")
    listed = [READ, mail, WRITE, replace(WRITE, name="WRITE")]
    assert first_to_pin("files", listed, taken={"sendmail": "the application"}) == [READ]
    assert first_to_pin("files", listed) == [READ, mail]


def test_the_digest_of_a_list_is_that_of_its_tools_whatever_their_order() -> None:
    digest = review_tools("files", [READ, WRITE]).digest
    assert digest == digest_of_list([WRITE, READ]) == digest_of_list(iter([READ, WRITE]))
    assert digest.startswith("sha256:")
    others = [[READ], [READ, WRITE, WRITE], [READ, replace(WRITE, name="rite")], []]
    assert len({digest, *map(digest_of_list, others)}) == 5


CHANGES = [
    {"name": "reads"},
    {"description": "Read a file. "},
    {"input_schema": {}},
    {"output_schema": {}},
    {"hints": {"readOnlyHint": False}},
    {"hints": {"readOnlyHint": None}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_part_of_a_definition_is_in_its_digest(change: dict[str, object]) -> None:
    assert replace(READ, **change).digest != READ.digest  # type: ignore[arg-type]
    assert (replace(READ, **change).content_digest != READ.content_digest) is ("name" not in change)  # type: ignore[arg-type]


def test_a_definition_comes_back_from_its_payload() -> None:
    for tool in (READ, WRITE, ListedTool("bare"), replace(READ, output_schema={"type": "string"})):
        assert ListedTool.from_payload(tool.to_payload()) == tool


@pytest.mark.parametrize("accept", ["", "first", "sha256:", "sha256:" + "0" * 63, "sha256:" + "G" * 64, True])
def test_a_rule_that_is_none_is_refused_with_those_that_there_are(accept: object) -> None:
    with pytest.raises(
        AgentDefinitionError, match=r"server 'files': accept=.* is no rule. Use accept='first use'"
    ):
        review_tools("files", [], accept=accept)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("send_mail", "Send-Mail"),
        ("send.mail", "sendmail"),
        ("send_mail", "send_mai1"),
        ("send_mail", "send_maiI"),
        ("send_mail", "\u0455end_m\u0430il"),
        ("send_mail", "send\u200b_mail"),
        ("send_mail", "\uff53end_mail"),
        ("send_mail", "sénd_mail"),
        ("list_0", "Iist_o"),
        ("modern", "rnodem"),
        ("view", "vievv"),
    ],
)
def test_names_that_look_alike_have_one_skeleton(one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)


@pytest.mark.parametrize(
    ("one", "other"), [("read", "write"), ("read", "reads"), ("get_a", "get_b"), ("v1", "v2")]
)
def test_other_names_have_other_skeletons(one: str, other: str) -> None:
    assert skeleton(one) != skeleton(other)
