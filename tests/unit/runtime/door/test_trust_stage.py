"""Which label a result leaves behind, and which calls may begin under it."""

from __future__ import annotations

from typing import Annotated

import pytest

from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import DataAccess, Externality, ToolApprovalRequirement, ToolEffects
from pilotage.runtime.door.admission import trust_verdict
from pilotage.runtime.door.run import RefusedError
from pilotage.runtime.exposure.trust import RUN_INPUT
from pilotage.runtime.people.requests import Ask
from pilotage.safety.fields import SecretField
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

TRUSTED, USER, UNTRUSTED = Integrity.TRUSTED, Integrity.USER, Integrity.UNTRUSTED
PUBLIC, TENANT, SECRET = Confidentiality.PUBLIC, Confidentiality.TENANT, Confidentiality.SECRET
NOT_REQUIRED = ToolApprovalRequirement.NOT_REQUIRED


class Office:
    @agent_tool(effects=ToolEffects(DataAccess.READ, network=True))
    def browse(self, url: str) -> str:
        return url

    @agent_tool(effects=ToolEffects(DataAccess.READ, network=True), reads_untrusted=False)
    def look_up_rate(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects(DataAccess.READ, Externality.EXTERNAL), approval=NOT_REQUIRED)
    def query_partner(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects.read_only())
    def read_docs(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects.read_only(), reads_untrusted=True, reads_private=True)
    def read_inbox(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects.read_only(), reads_private=True)
    def read_customer(self) -> str:
        return ""

    @agent_tool(effects=ToolEffects.read_only())
    def read_key(self) -> Annotated[str, SecretField()]:
        return ""

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=NOT_REQUIRED)
    def post(self, text: str) -> None: ...

    @agent_tool(effects=ToolEffects.external_side_effect(), approval=NOT_REQUIRED, accepts_untrusted=True)
    def log_remotely(self, text: str) -> None: ...

    @agent_tool(effects=ToolEffects.write_state(), approval=NOT_REQUIRED)
    def note(self, text: str) -> None: ...

    @agent_tool(effects=ToolEffects.write_state(), approval=NOT_REQUIRED, accepts_untrusted=True)
    def collect(self, text: str) -> None: ...

    @agent_tool
    def undeclared(self) -> None: ...

    @agent_tool(reads_untrusted=False)
    def declared(self) -> None: ...


def tool(name: str) -> AgentToolDescriptor:
    return discover_agent_tools(Office).by_schema_name(name)


def after(label: TrustLabel, asked: AgentToolDescriptor) -> TrustLabel:
    """The label of a run that has read a result of the tool."""
    return label.join(asked.result_label or TrustLabel())


def test_a_run_starts_with_the_words_of_a_user_which_are_private_to_the_tenant() -> None:
    assert (RUN_INPUT.integrity, RUN_INPUT.confidentiality) == (USER, TENANT)


@pytest.mark.parametrize(
    ("name", "integrity", "confidentiality"),
    [
        ("browse", UNTRUSTED, PUBLIC),
        ("query_partner", UNTRUSTED, PUBLIC),
        ("look_up_rate", USER, PUBLIC),
        ("read_docs", USER, PUBLIC),
        ("read_inbox", UNTRUSTED, TENANT),
        ("read_customer", USER, TENANT),
        ("read_key", USER, SECRET),
        ("post", UNTRUSTED, PUBLIC),
        ("undeclared", UNTRUSTED, PUBLIC),
        ("declared", USER, PUBLIC),
    ],
)
def test_a_result_leaves_its_label_behind(
    name: str, integrity: Integrity, confidentiality: Confidentiality
) -> None:
    label = after(TrustLabel(USER), tool(name))
    assert (label.integrity, label.confidentiality) == (integrity, confidentiality)


def test_a_label_remembers_where_it_comes_from() -> None:
    label = after(after(RUN_INPUT, tool("browse")), tool("read_customer"))
    assert label.origins == {"run input", "tool:browse", "tool:read_customer"}


def test_a_label_never_gets_better() -> None:
    worst = TrustLabel(UNTRUSTED, SECRET, frozenset({"page"}))
    for each in discover_agent_tools(Office).descriptors:
        label = after(worst, each)
        assert (label.integrity, label.confidentiality) == (UNTRUSTED, SECRET)
        assert label.origins >= worst.origins


def test_a_result_that_says_nothing_new_leaves_the_label_alone() -> None:
    assert tool("read_docs").result_label is None
    known = after(RUN_INPUT, tool("browse"))
    assert after(known, tool("browse")) is known


PASS, ASK, DENY = type(None), Ask, RefusedError


def verdict_for(label: TrustLabel, asked: AgentToolDescriptor) -> Ask | RefusedError | None:
    """What the stage says, a refusal as a value."""
    try:
        return trust_verdict(label, asked)
    except RefusedError as refused:
        return refused


@pytest.mark.parametrize(
    ("name", "user_public", "user_tenant", "untrusted_public", "untrusted_tenant", "user_secret"),
    [
        ("read_docs", PASS, PASS, PASS, PASS, PASS),
        ("read_customer", PASS, PASS, PASS, PASS, PASS),
        ("read_inbox", PASS, PASS, PASS, PASS, PASS),
        ("browse", PASS, PASS, PASS, ASK, DENY),
        ("look_up_rate", PASS, PASS, PASS, ASK, DENY),
        ("query_partner", PASS, PASS, ASK, ASK, DENY),
        ("post", PASS, PASS, ASK, ASK, DENY),
        ("log_remotely", PASS, PASS, PASS, PASS, DENY),
        ("note", PASS, PASS, ASK, ASK, PASS),
        ("collect", PASS, PASS, PASS, PASS, PASS),
        ("undeclared", PASS, PASS, ASK, ASK, PASS),
    ],
)
def test_what_may_begin_under_which_label(
    name: str,
    user_public: type,
    user_tenant: type,
    untrusted_public: type,
    untrusted_tenant: type,
    user_secret: type,
) -> None:
    labels = {
        TrustLabel(USER, PUBLIC): user_public,
        TrustLabel(USER, TENANT): user_tenant,
        TrustLabel(UNTRUSTED, PUBLIC): untrusted_public,
        TrustLabel(UNTRUSTED, TENANT): untrusted_tenant,
        TrustLabel(USER, SECRET): user_secret,
        TrustLabel(TRUSTED, PUBLIC): PASS,
    }
    assert {label: type(verdict_for(label, tool(name))) for label in labels} == labels


@pytest.mark.parametrize(
    ("label", "name", "reason"),
    [
        (
            TrustLabel(UNTRUSTED, PUBLIC, frozenset({"tool:browse", "run input"})),
            "note",
            "untrusted content from run input, tool:browse may have decided this call; 'note' changes something",
        ),
        (
            TrustLabel(UNTRUSTED, TENANT),
            "browse",
            "untrusted content from an unnamed source may have decided this call; "
            "'browse' communicates outward, and private data could leave with it",
        ),
        (
            TrustLabel(UNTRUSTED, PUBLIC, frozenset({"page"})),
            "query_partner",
            "untrusted content from page may have decided this call; 'query_partner' communicates outward",
        ),
        (
            TrustLabel(UNTRUSTED, PUBLIC, frozenset({"page"})),
            "undeclared",
            "untrusted content from page may have decided this call; "
            "'undeclared' does not declare that it only reads",
        ),
    ],
)
def test_a_person_is_told_why_they_are_asked(label: TrustLabel, name: str, reason: str) -> None:
    lifted_by = "Where no stranger can have written it, declare reads_untrusted=False there"
    assert verdict_for(label, tool(name)) == Ask(f"{reason}. {lifted_by}")


def test_a_question_after_a_signal_names_the_declaration_about_signals() -> None:
    ask = verdict_for(TrustLabel(UNTRUSTED, PUBLIC, frozenset({"signal:scheduler_wake_up"})), tool("note"))
    assert isinstance(ask, Ask)
    assert str(ask.reason).endswith("and untrusted_signals=[] for signals")


def test_a_refusal_names_the_tool_and_where_the_secret_comes_from() -> None:
    label = after(RUN_INPUT, tool("read_key"))
    assert (
        str(verdict_for(label, tool("post")))
        == "'post' communicates outward, and the run holds secret data from run input, tool:read_key"
    )
