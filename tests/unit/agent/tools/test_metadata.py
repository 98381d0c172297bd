"""What tools declare, and the risk, approval and recovery that follow."""

import pytest

from pilotage.agent.tools.metadata import (
    AgentToolMetadata,
    DataAccess,
    EvidenceCapture,
    Externality,
    Idempotency,
    ToolApprovalRequirement,
    ToolEffects,
    ToolPermission,
    ToolResumeAction,
    ToolRisk,
    ToolRiskAxis,
    effective_idempotency,
)

READ, WRITE = ToolRiskAxis.READ, ToolRiskAxis.WRITE
SIDE_EFFECT, DESTRUCTIVE, NETWORK = ToolRiskAxis.SIDE_EFFECT, ToolRiskAxis.DESTRUCTIVE, ToolRiskAxis.NETWORK


def declared(effects: ToolEffects, **more: object) -> AgentToolMetadata:
    facts: dict[str, object] = {"data_access": effects.data_access, "externality": effects.externality}
    return AgentToolMetadata(effects=effects, **(facts | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("effects", "axes", "is_candidate"),
    [
        (ToolEffects(), (), False),
        (ToolEffects.read_only(), (READ,), False),
        (ToolEffects.write_state(), (WRITE, SIDE_EFFECT), True),
        (ToolEffects.external_side_effect(), (READ, WRITE, SIDE_EFFECT, NETWORK), True),
        (ToolEffects.destructive_action(), (WRITE, SIDE_EFFECT, DESTRUCTIVE, NETWORK), True),
        (ToolEffects(externality=Externality.UNKNOWN), (SIDE_EFFECT,), False),
        (ToolEffects(externality=Externality.EXTERNAL), (SIDE_EFFECT, NETWORK), True),
        (ToolEffects(DataAccess.READ, network=True), (READ, NETWORK), False),
        (ToolEffects(destructive=True), (DESTRUCTIVE,), True),
    ],
)
def test_risk_follows_from_the_effects(
    effects: ToolEffects, axes: tuple[ToolRiskAxis, ...], is_candidate: bool
) -> None:
    metadata = declared(effects)
    assert metadata.risk == ToolRisk(axes)
    assert metadata.requires_approval_candidate is is_candidate


def test_access_and_externality_overrule_the_effects() -> None:
    metadata = AgentToolMetadata(effects=ToolEffects.external_side_effect())
    assert metadata.risk.axes == (NETWORK,)


@pytest.mark.parametrize(
    ("requirement", "effects", "is_candidate"),
    [
        (ToolApprovalRequirement.REQUIRED, ToolEffects.read_only(), True),
        (ToolApprovalRequirement.NOT_REQUIRED, ToolEffects.destructive_action(), False),
        (ToolApprovalRequirement.DERIVED, ToolEffects.destructive_action(), True),
    ],
)
def test_a_tool_may_decide_about_approval_itself(
    requirement: ToolApprovalRequirement, effects: ToolEffects, is_candidate: bool
) -> None:
    assert declared(effects, approval=requirement).requires_approval_candidate is is_candidate


@pytest.mark.parametrize(
    ("idempotency", "incomplete"),
    [
        (Idempotency.IDEMPOTENT, ToolResumeAction.RETRY),
        (Idempotency.CONDITIONALLY_IDEMPOTENT, ToolResumeAction.RETRY),
        (Idempotency.NON_IDEMPOTENT, ToolResumeAction.REQUIRE_APPROVAL),
        (Idempotency.UNKNOWN, ToolResumeAction.REQUIRE_APPROVAL),
    ],
)
def test_a_restart_follows_the_declared_idempotency(
    idempotency: Idempotency, incomplete: ToolResumeAction
) -> None:
    resume = AgentToolMetadata(idempotency=idempotency).resume
    assert resume.action_for_incomplete_boundary() is incomplete
    assert resume.action_for_completed_boundary() is ToolResumeAction.SKIP_COMPLETED


@pytest.mark.parametrize(
    ("metadata", "takes_key", "effective"),
    [
        (AgentToolMetadata(), False, Idempotency.UNKNOWN),
        (declared(ToolEffects.read_only()), False, Idempotency.IDEMPOTENT),
        (
            declared(ToolEffects.read_only(), idempotency=Idempotency.NON_IDEMPOTENT),
            False,
            Idempotency.NON_IDEMPOTENT,
        ),
        (declared(ToolEffects.write_state()), True, Idempotency.UNKNOWN),
        (
            AgentToolMetadata(idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT),
            False,
            Idempotency.UNKNOWN,
        ),
        (
            AgentToolMetadata(idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT),
            True,
            Idempotency.CONDITIONALLY_IDEMPOTENT,
        ),
        (
            AgentToolMetadata(idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT, reconcile="find"),
            False,
            Idempotency.CONDITIONALLY_IDEMPOTENT,
        ),
        (
            declared(ToolEffects.read_only(), idempotency=Idempotency.CONDITIONALLY_IDEMPOTENT),
            False,
            Idempotency.IDEMPOTENT,
        ),
    ],
)
def test_recovery_relies_only_on_what_is_backed(
    metadata: AgentToolMetadata, takes_key: bool, effective: Idempotency
) -> None:
    assert effective_idempotency(metadata, takes_key=takes_key) is effective


@pytest.mark.parametrize(
    ("effects", "is_read_only", "changes_state", "communicates_outward"),
    [
        (ToolEffects(), False, False, False),
        (ToolEffects.read_only(), True, False, False),
        (ToolEffects(DataAccess.READ, network=True), True, False, True),
        (ToolEffects(DataAccess.READ, Externality.EXTERNAL), False, False, True),
        (ToolEffects(DataAccess.READ, Externality.UNKNOWN), False, False, True),
        (ToolEffects(DataAccess.READ, destructive=True), False, True, False),
        (ToolEffects.write_state(), False, True, False),
        (ToolEffects.external_side_effect(), False, True, True),
    ],
)
def test_effects_say_what_a_tool_may_do(
    effects: ToolEffects, is_read_only: bool, changes_state: bool, communicates_outward: bool
) -> None:
    metadata = declared(effects)
    assert metadata.is_read_only is is_read_only
    assert metadata.changes_state is changes_state
    assert metadata.communicates_outward is communicates_outward


@pytest.mark.parametrize(
    ("effects", "returns_untrusted"),
    [
        (ToolEffects(), True),
        (ToolEffects(network=True), True),
        (ToolEffects.read_only(), False),
        (ToolEffects(DataAccess.READ, network=True), True),
        (ToolEffects(DataAccess.READ, Externality.EXTERNAL), True),
        (ToolEffects(DataAccess.READ, Externality.UNKNOWN), True),
        (ToolEffects.write_state(), False),
        (ToolEffects.external_side_effect(), True),
        (ToolEffects.destructive_action(), True),
    ],
)
def test_what_comes_from_outside_or_is_undeclared_is_what_strangers_wrote(
    effects: ToolEffects, returns_untrusted: bool
) -> None:
    assert declared(effects).returns_untrusted is returns_untrusted


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("effects", [ToolEffects.read_only(), ToolEffects.external_side_effect()])
def test_a_tool_may_say_itself_what_it_reads_and_whether_it_communicates(
    effects: ToolEffects, says: bool
) -> None:
    metadata = declared(effects, reads_untrusted=says, communicates=says)
    assert (metadata.returns_untrusted, metadata.communicates_outward) == (says, says)


def test_every_kind_of_capture_has_a_helper_of_its_name() -> None:
    helpers = {member: getattr(EvidenceCapture, member.value)() for member in EvidenceCapture}
    assert helpers == {member: member for member in EvidenceCapture}


def test_results_are_kept_in_structured_form_by_default() -> None:
    assert AgentToolMetadata().evidence is EvidenceCapture.STRUCTURED


class CanPay(ToolPermission):
    pass


class CanReadHTMLDocs(ToolPermission):
    pass


class DocsRead(ToolPermission):
    name = "docs.read"


@pytest.mark.parametrize(
    ("permission", "name"),
    [
        (ToolPermission("payments.pay"), "payments.pay"),
        (CanPay(), "can_pay"),
        (CanReadHTMLDocs(), "can_read_html_docs"),
        (DocsRead(), "docs.read"),
        (DocsRead("docs.all"), "docs.all"),
    ],
)
def test_a_permission_is_named_by_its_argument_its_class_attribute_or_its_class(
    permission: ToolPermission, name: str
) -> None:
    assert permission.name == name


def test_permissions_of_one_name_are_the_same_permission() -> None:
    assert {CanPay(), ToolPermission("can_pay")} == {CanPay()}
    assert CanPay() != DocsRead()
    assert CanPay() != "can_pay"


def test_metadata_keeps_its_permissions_as_a_tuple() -> None:
    metadata = AgentToolMetadata(permissions=[CanPay()])  # type: ignore[arg-type]
    assert metadata.permissions == (CanPay(),)
    assert hash(metadata) == hash(AgentToolMetadata(permissions=(CanPay(),)))
