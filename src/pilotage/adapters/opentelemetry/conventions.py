"""Names of OpenTelemetry's conventions for generative AI that we use, and our own.

They are our constants, because the conventions still change, and our output must not change with a dependency.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the kind of tokens a model counts
ERROR_TYPE = "error.type"

CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"

TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - the same
OPERATION_DURATION = "gen_ai.client.operation.duration"

RUN_ID = "pilotage.run.id"
RUN_STATUS = "pilotage.run.status"
RUN_EPOCH = "pilotage.run.epoch"
TENANT = "pilotage.tenant.id"
ACTION_ID = "pilotage.action.id"
ACTION_NAME = "pilotage.action.name"
INTERRUPTED_BY = "pilotage.interrupted_by"
