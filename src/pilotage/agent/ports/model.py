"""The port of a model, and the port by which an application chooses the model of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from pilotage.agent.media import check_taken_by, media_in, media_types_of
from pilotage.agent.model_reply import ModelResponse, ModelStreamEvent
from pilotage.agent.model_request import ModelRequest, ModelSelection
from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunAgentInput
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.container.pod import provided_by
from pilotage.errors import AgentDefinitionError, AgentModelConfigurationError, MediaRefusedError
from pilotage.values import value


@value
class ModelCapability:
    """The capabilities of a model: the runtime adapts to them, or refuses the model at start-up.

    `max_output_tokens` is the longest reply. `media_types` are the MIME types that messages may have besides text,
    `image/*` for all of a kind; with None the model does not declare them and is given whatever there is. A model that
    asks others gives their names in `stands_for`, and says with `pays_each` whether one call may have to be paid to
    several of them. `provider` is the name of its provider in OpenTelemetry's conventions.
    """

    model: str
    context_tokens: int | None = None
    tools: bool = True
    parallel_tool_calls: bool = True
    structured_output: bool = True
    reasoning: bool = False
    media_types: frozenset[str] | None = None
    max_output_tokens: int | None = None
    stands_for: tuple[str, ...] = ()
    pays_each: bool = False
    provider: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, model=self.model)
        if self.media_types is not None:
            object.__setattr__(self, "media_types", media_types_of(self, self.media_types))
        reject_not_positive(
            self, context_tokens=self.context_tokens, max_output_tokens=self.max_output_tokens
        )

    def why_too_long(self, max_tokens: int | None) -> str | None:
        """Return why the model cannot write a reply of so many tokens; None where it can, or declares no bound."""
        most = self.max_output_tokens
        if max_tokens is None or most is None or max_tokens <= most:
            return None
        return (
            f"{self.model!r} writes at most {most:,} tokens, and the request asks for max_tokens={max_tokens:,}. "
            "Ask for less, or use another model."
        )


@provided_by(
    "pilotage[openai]",
    family=AgentModelConfigurationError,
    setup="name its server in PILOTAGE_MODEL_BASE_URL and PILOTAGE_MODEL_NAME",
)
class IAgentModel(ABC):
    """A model: whole replies or streams of events.

    Every adapter guarantees: a stream ends with exactly one DONE event, or raises; a stream that breaks off never
    looks like success; closing the stream stops the generation; the request is not changed; no vendor's error leaves
    the adapter. DONE may carry the whole response. Where it carries none, the reply is what the events said: their
    text, one TOOL_CALL_CANDIDATE for each call, the structured output, the usage; an ERROR event fails the call.
    """

    @abstractmethod
    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply to a request.

        Raises:
            ModelCallError: the call failed; `retryable` says whether trying again may help.
        """

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelStreamEvent]:
        """Yield the reply as it is produced.

        Raises:
            ModelCallError: the call failed; `retryable` says whether trying again may help.
        """

    @property
    def capability(self) -> ModelCapability:
        """The capabilities of this model. The default has all of a chat model with tools."""
        return ModelCapability(model=type(self).__name__)

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return the tokens of a request as the model counts them; None where it cannot be asked.

        Runs ask where a limit or a budget bounds tokens or cost; otherwise, and where counting fails, they estimate.

        Raises:
            ModelCallError: the model did not count.
        """
        return None

    def capability_for(self, selection: ModelSelection | None) -> ModelCapability:
        """Return what the selected model can do; adapters of one model have only one answer."""
        return self.capability

    def validate_request(self, request: ModelRequest) -> None:
        """Refuse a request this model cannot serve, before anything is sent.

        Raises:
            AgentDefinitionError: the request asks for something the model's capability does not have.
        """
        capability = self.capability
        missing = [
            what
            for what, asked, can in (
                ("tools", request.tool_calling is not None, capability.tools),
                ("structured output", request.structured_output is not None, capability.structured_output),
            )
            if asked and not can
        ]
        if missing:
            raise AgentDefinitionError(
                f"{capability.model!r} does not support {' and '.join(missing)}, which the request asks for. "
                "Use a model that does, or leave it out."
            )
        if (too_long := capability.why_too_long(request.sampling.max_tokens)) is not None:
            raise AgentDefinitionError(too_long)
        try:
            check_taken_by(capability.model, capability.media_types, media_in(request.messages))
        except MediaRefusedError as error:
            raise AgentDefinitionError(str(error)) from error


class IAgentModelResolver(ABC):
    """Chooses the model of each run whose loop a model drives: by its input, its tenant, its metadata.

    It is asked once, before the run is recorded. The choice is part of the run's start: an attempt that resumes the run
    does not ask again, and the child runs of the run use the same model. Agents with an `execute()` of their own use
    the models that they inject; it is not asked for them, but for their child runs.
    """

    @abstractmethod
    async def resolve(
        self, agent: str, run_input: RunAgentInput, principal: Principal
    ) -> ModelSelection | None:
        """Return the model of a run of the agent, by the name of its pod or of the model.

        `run_input.model_selection` is what the caller selected, in words of the caller: only the answer must be a model
        of the application. None means that there is nothing to choose: the run uses the model that its caller selected,
        that its agent injects, or that the application has.

        Raises:
            CallerError: the caller may not have what it selected; nothing was started.
        """
