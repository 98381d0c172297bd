"""The assistant written by hand: a use case whose next step a model chooses.

There is no code for durability here, none for approval, none for redaction. `event.invoke_tool()` is a plain call; in a
run it is an action: a person may be asked, the journal is written, and after a crash it is not made twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from examples.code_assistant.git_tools import GitTools
from examples.code_assistant.safety import KEYS
from examples.code_assistant.shell_tools import ShellTools
from examples.code_assistant.task import CodeResult, CodeTask
from examples.code_assistant.workspace_tools import WorkspaceTools
from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentToolRuntimeContext,
    AgentYield,
    Error,
    Final,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    ModelStreamEvent,
    RecoveryStrategy,
    StreamingExposureMode,
    Token,
    Tool,
    ToolCallingSpec,
    agent_tool,
)
from pilotage.agent import (
    AgentDelegateTarget,
    ContextPack,
    ContextPackRole,
    ContextTokenBudget,
    DelegationBudget,
    DelegationPacket,
    DelegationReturnPolicy,
    IAgentDelegate,
    ModelToolCall,
    RejectionPolicy,
)
from pilotage.errors import AgentToolBindingError, AgentToolDispatchError, ToolError
from pilotage.jsonvalue import JsonValue, to_json_value

MOST_TURNS = 40


@Agent(
    spec=AgentExecutionSpec(
        name="code_assistant",
        objective="Works on the code in a workspace.",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=[
            AgentSignalKind.USER_MESSAGE,
            AgentSignalKind.STEERING_INSTRUCTION,
            AgentSignalKind.APPROVAL_DECISION,
            AgentSignalKind.CANCEL,
        ],
        streaming_exposure_mode=StreamingExposureMode.BALANCED,
        redaction=KEYS,
        on_rejection=RejectionPolicy.TELL_MODEL,
        delegation_allowed=True,
        context_budget=ContextTokenBudget(max_tokens=60_000, reserved_output_tokens=1_000),
        limits=AgentExecutionLimits(timeout_seconds=3600),
    )
)
class CodeAssistant:
    """Works on the code in a workspace."""

    def __init__(
        self,
        model: IAgentModel,
        workspace: WorkspaceTools,
        shell: ShellTools,
        git: GitTools,
        delegate: IAgentDelegate,
    ) -> None:
        self.model, self.workspace, self.shell, self.git = model, workspace, shell, git
        self.delegate = delegate

    async def execute(self, task: CodeTask) -> AsyncGenerator[AgentYield[CodeResult], None]:
        tools, context = self._tools(), [self._surroundings()]
        messages = [ModelMessage.system(task.instructions), ModelMessage.user(task.goal)]
        for _ in range(MOST_TURNS):
            results: list[ModelMessage] = []
            request = ModelRequest(messages=messages, tools=tools, context=context)
            async for event in self.model.stream(request):
                if event.is_text_delta:
                    yield Token(event.text)
                elif event.is_tool_call:
                    result = await _result_of(event)
                    yield _told(event, result)
                    results.append(ModelMessage.tool(event.call_id or "", result))
                elif event.is_final:  # the end of a reply without tool calls
                    yield Final(CodeResult(event.text))
                    return
                elif event.is_done:  # the end of any reply
                    messages += [event.message, *results]
        yield Error("too_many_turns", f"the work is not done after {MOST_TURNS} turns")

    @agent_tool(name="review", idempotency=Idempotency.IDEMPOTENT, accepts_untrusted=True)
    async def review(self, question: str, runtime_context: AgentToolRuntimeContext) -> str:
        """Have another agent look at all changes since the last commit.

        Args:
            question: what it shall look at.
        """
        # The call may be repeated: its packet finds the review that was begun, and never starts a second one.
        packet = DelegationPacket(
            id=f"review {runtime_context.idempotency_key}",
            parent_agent_state_id=runtime_context.state_id,
            target=AgentDelegateTarget("reviewer"),
            task={"question": question},
            budget=DelegationBudget(max_steps=10, timeout_seconds=300),
            allowed_capabilities=("git.diff", "review.check"),
            return_policy=DelegationReturnPolicy.FINAL_OUTPUT,
        )
        return str((await self.delegate.delegate_tool_result(packet)).output)

    def _surroundings(self) -> ContextPack:
        """What the model sees of the workspace without asking: which files there are."""
        files = "\n".join(self.workspace.list_files()) or "(no files)"
        return ContextPack("files", files, "workspace.list_files", ContextPackRole.STATE)

    def _tools(self) -> ToolCallingSpec:
        files, shell, git = self.workspace, self.shell, self.git
        reading: list[Callable[..., object]] = [files.list_files, files.search, files.read]
        reading += [git.status, git.diff, self.review]
        changing: list[Callable[..., object]] = [files.write, files.patch, git.apply, git.commit]
        return ToolCallingSpec.from_tools([*reading, *changing, shell.run, shell.run_with_token])


def _told(event: ModelStreamEvent, result: JsonValue) -> Tool:
    """A call and its result, for whoever watches."""
    call = event.tool_call or ModelToolCall(event.name or "", {})
    return Tool(call.name, call_id=call.call_id, arguments=call.arguments, result=result)


async def _result_of(event: ModelStreamEvent) -> JsonValue:
    """What a call gave; what went wrong is told to the model, which may know a way around it."""
    try:
        return to_json_value(await event.invoke_tool())
    except (ToolError, AgentToolBindingError, AgentToolDispatchError) as error:
        return {"error": str(error)}
