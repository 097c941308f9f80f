"""Where tests find what they name: one table of modules and the names of ours that tests use.

Tests import from here, so that a module can move and only a line of this table moves with it. Left out are those of
single modules (`tests/core`, `tests/documents`) and the twins of ports, which are typed. A module is loaded when one of
its names is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES: dict[str, str] = {
    "ordain.adapters.agents.command": "WORD_BYTES_MAX",
    "ordain.adapters.agents.local": "LocalAgents",
    "ordain.adapters.agents.output": "read_object",
    "ordain.adapters.agents.preset": "PRESETS",
    "ordain.adapters.agents.python_work": "Work",
    "ordain.adapters.ledger.backup": "EXPORT_FORMAT FileArchive backup export restore",
    "ordain.adapters.ledger.database": "FORMAT RESERVE_BYTES Reserve inspect",
    "ordain.adapters.ledger.glance": "approved_plans",
    "ordain.adapters.ledger.lock": "FileWriterLock",
    "ordain.adapters.ledger.sqlite": "SqliteLedger",
    "ordain.adapters.ledger.writer": "Writer",
    "ordain.adapters.model.client": "HttpModels ModelBounds",
    "ordain.adapters.process.bash": "BashShell",
    "ordain.adapters.process.executors": "end_executors",
    "ordain.adapters.process.host": "program_path user_settings",
    "ordain.adapters.process.line": "understanding",
    "ordain.adapters.process.outside": "CommandNotifier our_python started",
    "ordain.adapters.process.process": "SERVERS all_processes children_of_us mark_of with_descendants",
    "ordain.adapters.process.shell_text": "PARSED_BYTES_MAX ShellText",
    "ordain.adapters.process.spool": "Spool USAGE_BYTES_MAX",
    "ordain.adapters.sandbox.bubblewrap": "no_sockets",
    "ordain.adapters.sandbox.sandbox": "BubblewrapSandbox SandboxedShell",
    "ordain.adapters.state.client_token": "FileClients",
    "ordain.adapters.state.directory": "shelf_path state_directory state_path workspace_directory",
    "ordain.adapters.state.keys": "FileKeyring WrongPassphrase create public_half public_key sign signed verify",
    "ordain.adapters.state.sighting_log": "SightingLog",
    "ordain.adapters.state.stop_file": "StopFiles read_stops",
    "ordain.adapters.step_channel.channel": "PipeDoors",
    "ordain.adapters.step_channel.client": "DoorClient",
    "ordain.adapters.step_channel.pipe": "ClientMessage MESSAGE_MAX NONSENSE_MAX PAIRS WAITING_MAX",
    "ordain.adapters.tools.cel": "Cel",
    "ordain.adapters.tools.file": "FileTools",
    "ordain.adapters.tools.http": "HttpTools",
    "ordain.adapters.tools.mcp": "McpTools",
    "ordain.adapters.tools.python": "Handler PythonHandlers PythonTools",
    "ordain.adapters.tools.toolbox": "JoinedToolbox ToolSources built_in_tools",
    "ordain.adapters.tools.upstream": "ServerSessions",
    "ordain.adapters.workspace.clock": "RandomIds WallClock",
    "ordain.adapters.workspace.control_file": "ControlWatch REPLACED",
    "ordain.adapters.workspace.copies": "WorkspaceCopies WorkspaceStepLogs",
    "ordain.adapters.workspace.directory": "SETTLED_NS DirectoryWorkspace",
    "ordain.adapters.workspace.file_list": "DirectoryOutlines list_files",
    "ordain.adapters.workspace.locate": "find_workspace",
    "ordain.adapters.workspace.operand": "operand_path operand_pattern",
    "ordain.adapters.workspace.protected_file": "ProtectedFiles",
    "ordain.adapters.workspace.secret": "FILE_BYTES_MAX collect",
    "ordain.app.app": "App",
    "ordain.app.gate": "Gate",
    "ordain.app.audits": "measure",
    "ordain.app.authority": "RunAuthority",
    "ordain.app.guard": "GuardInForce GuardedCalls Seen",
    "ordain.app.plans": "PlanVerbs",
    "ordain.app.proposal_copy": "ProposalCopies",
    "ordain.app.review": "Reviews",
    "ordain.app.run_end": "RunEnds",
    "ordain.app.topics": "Topics",
    "ordain.assemble.quick_guard": "QuickGuard",
    "ordain.assemble.workspace": "open_at_terminal open_clients open_workspace",
    "ordain.core.approval.approval": """
        Approval Base Channel Moment Principal Situation WorkspaceIdentity signed_bytes
    """,
    "ordain.core.approval.diff.concern": "concerns",
    "ordain.core.approval.diff.difference": "Comparison Side difference",
    "ordain.core.approval.diff.direction": "StepPolicy failure_changes",
    "ordain.core.approval.signature": "PublicKey Signature Verifier fingerprint raw_signature statement",
    "ordain.core.guard.call": "Call CallStanding Guard Met Mode refusal_of",
    "ordain.core.guard.host_tool": "found_at readings",
    "ordain.core.guard.sighting": "ABOUT_MAX Sighting",
    "ordain.core.ledger.audit": "audit",
    "ordain.core.ledger.chain": "Entry",
    "ordain.core.ledger.findings": "Kind Rules Signed",
    "ordain.core.ledger.link": "Tip",
    "ordain.core.ledger.summary": "PlanSummary summarise",
    "ordain.core.lineage.ask": "Given",
    "ordain.core.lineage.decision": """
        Choice Question decided find_question question_about questions signed_decision still_asked
    """,
    "ordain.core.lineage.lineage": "Permission PlanState Stage TRANSITIONS",
    "ordain.core.lineage.refusal": "PER_HOUR REFUSALS_STREAM",
    "ordain.core.lineage.retention": "KeptRun MEGABYTE RETENTION_STREAM outputs_to_remove",
    "ordain.core.lineage.replan": "cause_of causes_of remainder_of replan_fault",
    "ordain.core.lineage.subset": "subset_faults",
    "ordain.core.lineage.workspace": "proof_of revocation",
    "ordain.core.lint.contract": "constant_status ignores_failures",
    "ordain.core.lint.path": "written_places",
    "ordain.core.lint.rules": "lint",
    "ordain.core.lint.settings": "list_problems",
    "ordain.core.lint.survey": "Facts Survey waits_for",
    "ordain.core.plan.action": """
        AcquireLock Ask CallTool Custom ReleaseLock RunCommand SendText StoreData Task ValidateApproval WaitFor
        WaitForFile
    """,
    "ordain.core.plan.canonical": """
        PLAN_TYPE canonical_bytes digest plan_from_bytes plan_hash plan_id sha256 short_id step_key
    """,
    "ordain.core.plan.command": "command_text",
    "ordain.core.plan.condition": """
        ApprovalScope ApprovalValid Contract CustomCondition External LockAvailable LockHeld NoCheck PaneExists
        PaneState PatternMatch PatternMatched PatternNotMatched Precondition StepCompleted Verification
    """,
    "ordain.core.plan.failure": """
        Abort AskApproval Continue Escalate FailurePolicy Fallback LastPolicy Recover Replan Retry Skip
    """,
    "ordain.core.plan.graph": "edges_fault needs_of",
    "ordain.core.plan.model": """
        Action Budget ForEach NestedPlan PLAN_VERSION Parameter Plan Step all_steps check_of contract_of
    """,
    "ordain.core.plan.role": "Count EffectClass about fields roles",
    "ordain.core.plan.tool": """
        BUILT_IN DEFINITIONS HANDLER SHELL ToolDefinition ToolSource argument_faults definition_of handler_name
    """,
    "ordain.core.plan.value": "Instant PlanId RunId StepId",
    "ordain.core.policy.agent": """
        AGENT_PRESETS Agent ModelAccess PROVIDERS VERBS base_url_fault model_access model_fault
    """,
    "ordain.core.policy.assignment": "assignments",
    "ordain.core.policy.effect": "planned_effects",
    "ordain.core.policy.command_facts": "LINE_MAX",
    "ordain.core.policy.fact": "ALARMS CommandFact CommandFacts FactNote LineFacts Risk",
    "ordain.core.policy.loading": "CACHED LoadingRules is_cached",
    "ordain.core.policy.path_use": "ABSENT operand_paths",
    "ordain.core.policy.program": "STARTERS handed_text unwrapped",
    "ordain.core.policy.program_table": "ProgramTable parse_entry",
    "ordain.core.policy.rule": "ArgumentConditions CallRule Holds",
    "ordain.core.policy.ruling": "rule",
    "ordain.core.policy.scope": "offered",
    "ordain.core.policy.script": """
        AndOr Background CommandGroup Condition Function Negated Opaque Pipeline Script Simple SimpleCommand
        argument_script plain_script programs
    """,
    "ordain.core.policy.sealing": "RunEnvironment",
    "ordain.core.policy.settings": "DEFAULTS Limits Settings UserSettings is_secret_variable limits",
    "ordain.core.policy.stop": "StopOrder stopped_problem",
    "ordain.core.policy.strict_command": "read_strictly",
    "ordain.core.policy.tier": "SandboxLimits",
    "ordain.core.report.brief": "read_choice",
    "ordain.core.report.progress": "AttemptOutput Told read_output wire_line",
    "ordain.core.report.lint_report": "LintReport",
    "ordain.core.report.report": "PlanLine Review RunReport StepReport",
    "ordain.core.report.risk": "KINDS PLAN_RISKS PlanRisk QUIET_FACTS RiskPlace",
    "ordain.core.report.risk_search": "RiskSources excerpt find_risks",
    "ordain.core.report.statistics": """
        Contracts Decisions Doubts Failure KindTime MissingProgram Part Plans Retries Runs Statistics StepCount
        StepTime time_of
    """,
    "ordain.core.report.succession": "became",
    "ordain.core.report.tally": "RunTally Tally part_of",
    "ordain.core.run.attempt": "is_whole whole_seal",
    "ordain.core.run.event": """
        ReplanBegun ReplanEnded
        AnswerSent ApprovalExpired ApprovalGiven ApprovalRevoked ApproverEnrolled ApproverRevoked BudgetReached
        ConfigTrusted Event ExecutorStarted LineageEvent LockEvent LockReleased LockTaken OutputsRemoved PlanArchived
        PlanCancelled
        PlanExpired PlanPrepared PlanRejected ProtectedChanged Recorded ReplanBegun RequestRefused RunCancelled RunEnded
        RunEvent RunFinished RunOpened RunPaused RunStarted SignalGiven SignatureRefused StopAsked TopicPosted
        WorkStopped WorkspaceEvent WorkspaceOpened ids_named to_wire
    """,
    "ordain.core.run.prompt": "AGENT_CANNOT PARTS cannot_words fenced why_cannot",
    "ordain.core.run.result": "Missing decoded",
    "ordain.core.run.run_state": "IllegalTransition RunState",
    "ordain.core.run.spending": "Account",
    "ordain.core.run.schedule": """
        Effect End Gather GiveUp Recheck SettleByCheck SettleByContract Start Stop Verify WaitOn Wake decide
        effect_class looks_first
    """,
    "ordain.core.run.state": "apply",
    "ordain.core.run.step_event": """
        AgentCallFailed AgentCalled AttemptEnded AttemptStarted AttemptWaiting ConditionFalse ContractBroken
        ContractHeld ContractInconclusive ContractSeen DecisionGiven DoubtChecked DoubtFound DoubtReferred
        DoubtSettled Evidence FallbackEnded FilesProtected GroupKind Outcome PreconditionBroken ProtectedFile
        Settlement StepApprovalAsked StepKept StepNotKept StepState StepUnfolded Usage Verdict WorkClaimed
        WorkOffered
    """,
    "ordain.core.run.topic": "MESSAGE_BYTES_MAX TOPICS_MAX stream_of_topic",
    "ordain.core.run.wait": "stream_of",
    "ordain.core.task.offer": "CANNOT_TOOL CallAnswer DOOR Offer TOKEN",
    "ordain.core.task.work_item": "Read WorkItem form_lines",
    "ordain.core.text.confusable": "confusable_places",
    "ordain.core.text.control": "folded is_control",
    "ordain.core.text.limit": "ARTIFACT_BYTES_MAX DAY_MS OUTPUT_BYTES_MAX",
    "ordain.core.text.path": "handed_fault is_kept path_fault pattern_fault",
    "ordain.core.text.pattern": "PathPattern normal",
    "ordain.core.text.problem": "Place Problem Refused Severity refuse",
    "ordain.core.text.redaction": "Redactor",
    "ordain.core.text.tail": "CUT_MARK",
    "ordain.core.text.secret": "Secret",
    "ordain.documents.guard_rules": "CannotEdit entries_of with_rules without_rules",
    "ordain.documents.markdown.writer": "write_markdown",
    "ordain.documents.reading": "read",
    "ordain.documents.settings": "read_settings",
    "ordain.documents.settings_in_force": "read_user_settings user_key_names",
    "ordain.documents.tree_writer": "write_json write_yaml",
    "ordain.engine.affected": "touches",
    "ordain.engine.begin": "Conditions",
    "ordain.engine.call": "CALLS_MAX Calls",
    "ordain.engine.dialogue": """
        Dialogue DialogueEnd DialogueLimits Performed checked converse without_raw
    """,
    "ordain.engine.loop": "Engine",
    "ordain.engine.perform.deadline": "Deadlines",
    "ordain.engine.perform.table": "ELSEWHERE PERFORMERS WATCHERS",
    "ordain.engine.reads": """
        FILES_MAX Gathered MESSAGES_MAX NothingGivenError READS_BYTES_MAX READ_BYTES_MAX StepReads
    """,
    "ordain.engine.verify": "ask contract_command judge judge_answer",
    "ordain.interfaces.background": "BackgroundProcess",
    "ordain.interfaces.cli.cmd_robot": "verbs_in",
    "ordain.interfaces.cli.completion": "SHELLS TAKES",
    "ordain.interfaces.cli.configuration": "settings_template",
    "ordain.interfaces.cli.execution": "carry_out",
    "ordain.interfaces.cli.live": "LiveView Region",
    "ordain.interfaces.cli.main": "SYNONYMS main",
    "ordain.interfaces.cli.pager": "Pager",
    "ordain.interfaces.cli.terminal": "screen_rows",
    "ordain.interfaces.cli.session": "BUG FAILED FINE REFUSED WAITING",
    "ordain.interfaces.cli.signals": "INTERRUPTED NOBODY_READS",
    "ordain.interfaces.gateway.answer": "OWN_CAPABILITIES",
    "ordain.interfaces.gateway.front": "Caller Front GatewayPatience",
    "ordain.interfaces.gateway.http": "GatewayHttp gateway_application",
    "ordain.interfaces.gateway.relay": "Relay",
    "ordain.interfaces.gateway.wire": "Id Message",
    "ordain.interfaces.hook.claude": "HookAnswer Options REASON_MAX STDIN_MAX answer_hook denied_reason",
    "ordain.interfaces.hook.full": "EXAMPLE",
    "ordain.interfaces.hook.settings": "with_hook with_server without_hook without_server",
    "ordain.interfaces.http.entrance": "Application Entrance Receive Scope Send hosts listen own_hosts",
    "ordain.interfaces.http.server": "serve_http",
    "ordain.interfaces.mcp.argument": "read_arguments schema_of",
    "ordain.interfaces.mcp.follow": "RunTasks run_task",
    "ordain.interfaces.mcp.http": "http_application http_caller",
    "ordain.interfaces.mcp.plan_surface": "PLAN_SURFACE listed_plans",
    "ordain.interfaces.mcp.prompts": "PLAN_PROMPTS QUOTED_MAX STEPS_MAX quoted",
    "ordain.interfaces.mcp.proposal": "Proposal document_of",
    "ordain.interfaces.mcp.server": "OrdainServer",
    "ordain.interfaces.mcp.subscription": "Context Subscription Watcher",
    "ordain.interfaces.mcp.surface": """
        Answer Argument ClientCall Content ListedResource Prompt ProtocolTask ResourceTemplate Surface TaskStatus
        Tasks Tool
    """,
    "ordain.interfaces.mcp.tasks": "created declared missing_extension",
    "ordain.interfaces.mcp.texts": "next_call",
    "ordain.interfaces.mcp.tools": "PLAN_TOOLS",
    "ordain.interfaces.robot.envelope": "TABLES table_value to_text toon_text",
    "ordain.interfaces.robot.schema": "RESULTS answer_schema event_schema schema_name",
    "ordain.documents.skill": "skill_body skill_sections skill_text",
    "ordain.interfaces.view.audit": "audit_lines",
    "ordain.interfaces.view.diff": "difference_lines",
    "ordain.interfaces.view.frame": "Line Span frame last_lines",
    "ordain.interfaces.view.guard": "watch_lines",
    "ordain.interfaces.view.mermaid": "mermaid_text",
    "ordain.interfaces.view.picture": "picture_lines picture_result",
    "ordain.interfaces.view.preview": "review_lines",
    "ordain.interfaces.view.problem": "data_text glossary glossary_entry plain_text problem_pages",
    "ordain.interfaces.view.review": "risk_lines",
    "ordain.interfaces.view.lint": "lint_lines problem_lines",
    "ordain.interfaces.view.run": "inbox_lines instant run_lines status_lines",
    "ordain.interfaces.view.style": "Style",
    "ordain.interfaces.view.statistics": "statistics_lines",
    "ordain.interfaces.view.text": "bar cells condition_words packed shares visible",
    "ordain.planner.agent_planner": "answer_in",
    "ordain.planner.brief": "Answered bare opening",
    "ordain.planner.loop": "AgentBegun DraftEnd",
    "ordain.planner.outcome": "PlanRequest Planned notices_of problems_of",
    "ordain.planner.planner": "Planner in_place",
    "ordain.planner.replan": "ReplanRequest Replanner",
    "ordain.planner.rounds": "COUNTED JudgedDraft Rounds RoundsEnd",
    "ordain.ports.agent": "Invocation Said StepServer",
    "ordain.ports.ledger": "Append Artifact Ledger LedgerAccess Sightings",
    "ordain.ports.machine": "Client Credential Holder Keyring",
    "ordain.ports.model": """
        ModelFailed ModelRequest ModelTurn ModelUsage RequestFailed StopReason TextCame ToolAnswer ToolAnswers ToolSpec
        ToolUse UserText
    """,
    "ordain.ports.ports": "Ports",
    "ordain.ports.process": "Command Finished PART_BYTES Whole",
    "ordain.ports.tool": "Lost ToolResult Unreached Upstream Upstreams",
    "ordain.ports.workspace": "Copies Saved StepLogs",
    "ordain.records.records": "Records WORKSPACE_STREAM first_lineage",
    "ordain.records.sink": "Sink",
    "ordain.records.surroundings": "Surroundings",
}
HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"tests/words.py has no `{name}`: add it to its module")
    return getattr(import_module(HOME[name]), name)
