"""The agent contract: values, ports and tools. Import from here."""

from pilotage.exports import exports as _exports

_NAMES = {
    # Contract 1, 2: errors and JSON
    "pilotage.errors": """
        AgentBootstrapError AgentDefinitionError AgentMemoryError AgentModelConfigurationError
        AgentOutputGuardError AgentPersistenceConfigurationError AgentRetrievalError
        AgentStructuredOutputError AgentToolBindingError AgentToolDispatchError PilotageError""",
    "pilotage.jsonvalue": "JsonObject JsonPrimitive JsonValue",
    # Contract 3-5: state and signals
    "pilotage.agent.handlers": "on_event on_signal",
    "pilotage.agent.signals": """
        AgentSignal AgentSignalConsumptionBatch AgentSignalEnd AgentSignalKind AgentSignalLane
        AgentSignalPollPoint AgentSteeringUpdate ApprovalDecision RejectionPolicy accepts_signal select_signals""",
    "pilotage.agent.state": """
        AgentSituation AgentState AgentStateReason AgentStateTransition AgentStatus can_move""",
    # Contract 6, 25: stream and events
    "pilotage.agent.events": """
        AgentEvent AgentEventAttribution AgentEventKind ArtifactEvent MessageDeltaEvent ReasoningDeltaEvent
        RunFinishedEvent RunPausedEvent RunStartedEvent StateDeltaEvent StateSnapshotEvent StepFinishedEvent
        StepStartedEvent ToolCallArgsDeltaEvent ToolCallEndEvent ToolCallResultEvent ToolCallStartEvent""",
    "pilotage.agent.model_stream": "ModelEventProjector",
    "pilotage.agent.yields": """
        AgentYield AgentYieldJsonEncoder AgentYieldKind AgentYieldPayload Approval Cancel Error Evidence Final
        Message Progress State StatePatch TextDelta Token Tool""",
    # Contract 7, 8, 26: agents and runs
    "pilotage.agent.bootstrap": "AgentBootstrapValidationPostProcessor",
    "pilotage.agent.definition": "AgentDefinition runner_backed_execute",
    "pilotage.agent.execution": "ExecuteContract ExecuteShape",
    "pilotage.agent.ports.runner": "IAgentDelegate IAgentRunner IAgentRunnerFactory",
    "pilotage.agent.principal": "Principal RunContext get_run_context run_context",
    "pilotage.agent.run_values": "AgentContext RunAgentInput RunResult",
    "pilotage.agent.spec": """
        AgentExecutionLimits AgentExecutionSpec LimitCode RecoveryStrategy
        StreamingExposureMode""",
    "pilotage.agent.stereotype": "Agent",
    # Contract 9-11: tools
    "pilotage.agent.control_tools": "ControlTools Exit NoTools control_call",
    "pilotage.agent.tools.bind": "AgentToolBoundInvocation bind_agent_tool_invocation",
    "pilotage.agent.tools.catalog": "AgentToolCatalog AgentToolDescriptor discover_agent_tools",
    "pilotage.agent.tools.context": "AgentToolApprovalContext AgentToolRuntimeContext CancellationToken",
    "pilotage.agent.tools.declare": """
        AgentToolDefinition IToolCalls ToolOptions agent_tool get_agent_tool_definition tool_calls_go_to""",
    "pilotage.agent.tools.described": "IAgentToolProvider",
    "pilotage.agent.tools.metadata": """
        AgentToolMetadata DataAccess EvidenceCapture Externality Idempotency ResultBudget TimeoutPolicy
        ToolApprovalRequirement ToolEffects ToolPermission ToolResumeAction ToolResumeMetadata ToolRisk
        ToolRiskAxis""",
    "pilotage.agent.tools.schema": "AgentToolIdentity AgentToolSchemaHandle",
    # Contract 12, 13: safety and redaction
    "pilotage.safety.discovery": "find_sensitive_fields",
    "pilotage.safety.fields": """
        ANY_DEPTH PII REDACTED_VALUE SECRET_VALUE CredentialRef DataSensitivity MaskingKey MaskingPolicy
        RedactionPolicy SecretField SecretRef SensitiveField SensitiveFieldDescriptor SensitiveMarker""",
    "pilotage.safety.guard": """
        SENSITIVE_KEYWORD ContextExposurePolicy EvidenceExposurePolicy ExposurePolicy guard_json_value
        schema_with_sensitive_metadata""",
    "pilotage.safety.redaction.policy": """
        StreamingGuardFailureMode StreamingRedactionMatch StreamingRedactionPolicy StreamingSensitivePattern""",
    "pilotage.safety.redaction.session": """
        StreamingRedactionAudit StreamingRedactionAuditStatus StreamingRedactionResult
        StreamingRedactionSession""",
    "pilotage.safety.trust": "Confidentiality Integrity TrustLabel",
    # Contract 14: context
    "pilotage.agent.compaction": "AgentCompactionPolicy",
    "pilotage.agent.context": """
        ContextDigest ContextFreshness ContextHealthSignal ContextManifest ContextManifestEntry
        ContextOptimizationAction ContextOptimizationActionKind ContextOptimizationEvidenceStage ContextPack
        ContextPackRole ContextRotSymptom ContextSensitivity ContextTokenBudget render_context_pack""",
    # Contract 15: models
    "pilotage.agent.messages": """
        ContentPart MediaPart MessagePart ModelMessage ModelMessageRole ModelToolCall OpaquePart ProviderState
        ReasoningPart RefusalPart TextPart""",
    "pilotage.agent.media": "MediaSafetyLimits",
    "pilotage.agent.model_failure": "ModelFailure",
    "pilotage.agent.model_reply": """
        ModelError ModelFinishReason ModelResponse ModelStreamEvent ModelStreamEventKind ModelUsage""",
    "pilotage.agent.model_request": """
        CacheOptions JsonSchemaConstraint ModelRequest ModelSelection ModelToolChoice ModelToolSpec ReasoningOptions
        SamplingOptions         StreamingOptions StructuredOutputSpec ToolCallingSpec""",
    "pilotage.agent.ports.model": "IAgentModel IAgentModelResolver ModelCapability",
    # Contract 17: evidence
    "pilotage.agent.evidence": """
        STRUCTURED_RESULT_LIMIT AgentEvidence AgentEvidenceCandidate AgentEvidenceKind""",
    # Contract 18: approval
    "pilotage.agent.approval": """
        DEFAULT_APPROVAL_DECISIONS AgentApprovalBoundaryKind AgentApprovalPlan AgentApprovalPlanAction
        AgentApprovalRequest plan_agent_tool_approval""",
    "pilotage.agent.decisions": """
        AgentApprovalDecisionOutcome ApprovalAccepted ApprovalCheck ApprovalExpired DecisionMalformed
        DecisionMisdirected DecisionNotAllowed DecisionRefusal DecisionRefusedError
        check_agent_approval_decision expired_approval_outcome materialize_agent_approval_decision_state
        parse_agent_approval_decision_signal""",
    # Contract 19: cancellation
    "pilotage.agent.cancellation": """
        AgentCancellationCleanupCallable AgentCancellationCleanupReport AgentCancellationCleanupResult
        AgentCancellationCleanupStatus AgentCancellationCleanupTask AgentCancellationRequest
        AgentCancellationTargetKind begin_agent_cancellation complete_agent_cancellation
        run_agent_cancellation_cleanup""",
    # Contract 20: recovery
    "pilotage.agent.recovery": """
        AgentActionBoundaryCheckpoint AgentActionBoundaryStage AgentActionKind AgentResumeAction
        AgentResumeBoundary AgentResumePlan plan_agent_resume""",
    "pilotage.agent.recovery_request": """
        AgentRecoveryRequest OpenAction RecoveryAnswer RecoveryCancelled RecoveryDecision RecoveryDone
        RecoveryFailed RecoveryRetried UnknownAttempt check_agent_recovery_decision
        materialize_agent_recovery_decision_state parse_agent_recovery_decision_signal""",
    # Contract 21: delegation
    "pilotage.agent.delegation": """
        AgentDelegateTarget AgentTeammate DelegationBudget DelegationContextSlice DelegationExpectedOutput
        DelegationPacket DelegationResult DelegationReturnPolicy DelegationToolResult""",
    # Contract 28: architectures
    "pilotage.agent.ports.architecture": """
        AgentRef AgentSession Architecture BranchFailure Dependencies FailurePolicy FoldedTurn IScopedModel
        IScopedRuntime IScopedTools LoopTurns ToolCallOutcome""",
    # Contract 16: stores
    "pilotage.agent.ports.blobs": "IBlobs IMediaSource StoredBlob",
    "pilotage.agent.ports.conversations": "ConversationTurn ConversationTurns ITaskStore",
    "pilotage.agent.ports.journal": """
        ClosedSignal CommitOutcome CommitRefusal CommitRefused Committed HeadMoved IAgentJournal JournalCommit
        JournalHead LeaseRequest OutboxEvent SignalsUnread""",
    "pilotage.agent.ports.leases": """
        BacklogEntry ClaimRecord IAgentBacklog IAgentLeases IAgentWakeUps IWakeUpSubscription Lease""",
    "pilotage.agent.ports.persistence": "ErasedRecord JournalRow JournalStage RunKey SealedRecord",
    "pilotage.agent.ports.repositories": """
        DamagedRun EvidencePage IAgentEvidenceRepository IAgentLateOutcomes IAgentRetention IAgentSignalRepository
        IAgentStateRepository LateOutcome RunPage consume_pending_agent_signals""",
    "pilotage.agent.ports.sealing": "IRecordSealer RecordSealError SealContext",
    # Facts and their delivery
    "pilotage.agent.facts": """
        AgentActionCompleted AgentActionOutcome AgentApprovalRequested AgentFact AgentQuestionKind
        AgentRunCancelled AgentRunCancelling AgentRunCompleted AgentRunDelegated AgentRunFailed AgentRunPaused
        AgentRunResumed AgentRunStarted AgentSignalTooLate IAgentEventPublisher UnreadableFactError read_fact
        write_fact""",
    "pilotage.agent.ports.outbox": "IAgentOutbox OutboxEntry OutboxPage OutboxStatus",
    # Other ports
    "pilotage.agent.ports.budget": """
        BudgetAmount BudgetExhausted BudgetGranted BudgetPeriod BudgetReservation BudgetSettlement
        BudgetVerdict BudgetWindow IAgentBudget IAgentPricing ITenantSpending ModelCost NoBudget""",
    "pilotage.agent.ports.costs": "CostEntry CostField CostRole CostSum IAgentCosts ModelCharge",
    "pilotage.agent.ports.handlers": """
        AgentOutputGuardProfile ApprovalSubject HookVerdict IAgentApprovalHandler IAgentCancellationCleanup
        IAgentContextHandler IAgentContextObserver IAgentContextProvider IAgentHooks IAgentOutputGuard
        IAgentRecoveryHandler IAgentToolHandler LinkGuard Proceed Veto""",
    "pilotage.agent.ports.memory": "IAgentMemory MemoryItem MemoryKind MemoryScope MemoryUse",
    "pilotage.agent.ports.observability": """
        AuditEntry IAgentAuditLog IAgentTelemetry NoTelemetry TelemetryValue""",
    "pilotage.agent.ports.permissions": """
        AllowAll IAgentPermissions IAgentSwitches IPrincipalResolver ISecrets PermissionDecision
        PermissionRequest PermissionRule PermissionRules PermissionVerdict RequireHeld StrictestOf Switch
        SwitchKind SwitchedOff strictest""",
    "pilotage.agent.ports.tool_pins": "IToolPins ToolPin",
}
__getattr__, __dir__, __all__ = _exports(__name__, _NAMES)
