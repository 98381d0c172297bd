"""What trust labels mean for a tool call: the label that its result leaves behind, the verdict before it begins.

Pure, and made from declarations only, so replay comes to the same labels and nothing depends on what a model says. A
label belongs to everything the next call may have been decided by, and never gets better on the way.
"""

from __future__ import annotations

from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.runtime.gate.verdicts import PASS, Ask, Deny, GateVerdict
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

_SECRET, _UNTRUSTED = Confidentiality.SECRET, Integrity.UNTRUSTED


def label_after_tool(label: TrustLabel, tool: AgentToolDescriptor) -> TrustLabel:
    """The label once the tool's result is known."""
    return label if tool.result_label is None else label.join(tool.result_label)


def verdict_for(label: TrustLabel, tool: AgentToolDescriptor) -> GateVerdict:
    """Whether a call that was decided under the label may begin.

    Secrets never go to a tool that communicates. Under untrusted content a person is asked, unless the tool only
    reads (inside the application; outside only while nothing private could leave with the look-up), or accepts it.
    """
    if label.confidentiality is _SECRET and tool.metadata.communicates_outward:
        return Deny(
            f"{tool.schema.name!r} communicates outward, and the run holds secret data from {_origins(label)}"
        )
    if label.integrity is not _UNTRUSTED or tool.metadata.accepts_untrusted:
        return PASS
    concern = _concern(label, tool)
    if concern is None:
        return PASS
    return Ask(f"untrusted content from {_origins(label)} may have decided this call; {concern}")


def _concern(label: TrustLabel, tool: AgentToolDescriptor) -> str | None:
    """What is to be feared of a call that a stranger decided."""
    metadata, name = tool.metadata, repr(tool.schema.name)
    if metadata.communicates_outward and not label.is_public:
        return f"{name} communicates outward, and private data could leave with it"
    if metadata.is_read_only:
        return None
    if metadata.changes_state:
        return f"{name} changes something"
    if metadata.communicates_outward:
        return f"{name} communicates outward"
    return f"{name} does not declare that it only reads"


def _origins(label: TrustLabel) -> str:
    return ", ".join(sorted(label.origins)) or "an unnamed source"
