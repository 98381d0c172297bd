"""Our spans under the names of the conventions, as tables."""

from __future__ import annotations

import pytest

from pilotage.adapters.opentelemetry.mapping import attributes_of, metric_attributes, span_of
from pilotage.agent.ports.observability import TelemetryValue


@pytest.mark.parametrize(
    ("name", "given", "title", "attributes"),
    [
        (
            "agent.run",
            {"agent": "clerk", "run_id": "r", "conversation": "c", "tenant": "acme", "epoch": 2},
            "invoke_agent clerk",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "clerk",
                "gen_ai.agent.id": "clerk",
                "gen_ai.conversation.id": "c",
                "pilotage.run.id": "r",
                "pilotage.tenant.id": "acme",
                "pilotage.run.epoch": 2,
            },
        ),
        (
            "agent.model_call",
            {"model": "m", "action_id": "a", "input_tokens": 3, "output_tokens": 4, "finish_reason": "stop"},
            "chat m",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": 3,
                "gen_ai.usage.output_tokens": 4,
                "gen_ai.response.finish_reasons": ("stop",),
                "pilotage.action.id": "a",
            },
        ),
        (
            "agent.tool_call",
            {"name": "pay", "action_id": "a"},
            "execute_tool pay",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "pay",
                "gen_ai.tool.call.id": "a",
                "pilotage.action.id": "a",
            },
        ),
        (
            "agent.delegation",
            {"name": "helper"},
            "invoke_agent helper",
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper"},
        ),
        ("agent.step", {"name": "step:mail"}, "agent.step step:mail", {"pilotage.action.name": "step:mail"}),
        ("custom", None, "custom", {}),
        ("custom", {"secret": "s"}, "custom", {}),
    ],
)
def test_a_span_has_the_names_of_the_conventions(
    name: str, given: dict[str, TelemetryValue] | None, title: str, attributes: dict[str, object]
) -> None:
    span = span_of(name, given)
    assert (span.name, span.attributes) == (title, attributes)
    assert span.is_remote is (name == "agent.model_call")


def test_durations_are_told_apart_by_few_values_and_no_ids() -> None:
    span = span_of("agent.run", {"agent": "clerk", "run_id": "r", "tenant": "acme"})
    assert span.measured("boom") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "error.type": "boom",
    }


def test_what_has_no_name_in_the_conventions_is_left_out() -> None:
    assert attributes_of({"status": "failed", "error": "code", "words": "payload"}) == {
        "pilotage.run.status": "failed",
        "error.type": "code",
    }
    assert metric_attributes({"agent": "clerk"}) == {"gen_ai.agent.name": "clerk"}
    assert metric_attributes(None) == {}
