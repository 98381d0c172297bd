"""Names of OpenTelemetry's conventions for generative AI that we use, and our own.

They are our constants, because the conventions still change, and our output must not change with a dependency.
`VERSION` is the version of the conventions that the names are of: a later one gets another table.
"""

from __future__ import annotations

VERSION = "1.44.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{VERSION}"

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITTEN_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the kind of tokens a model counts
ERROR_TYPE = "error.type"

CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"

TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - the same
OPERATION_DURATION = "gen_ai.client.operation.duration"
FIRST_CHUNK_DURATION = "gen_ai.client.operation.time_to_first_chunk"

# Not in the conventions: what backends read, and names of our own.
COST = "gen_ai.usage.cost"
CURRENCY = "pilotage.cost.currency"
PRICING_VERSION = "pilotage.cost.pricing_version"
RUN_ID = "pilotage.run.id"
RUN_STATUS = "pilotage.run.status"
RUN_EPOCH = "pilotage.run.epoch"
TENANT = "pilotage.tenant.id"
ACTION_ID = "pilotage.action.id"
ACTION_NAME = "pilotage.action.name"
INTERRUPTED_BY = "pilotage.interrupted_by"
