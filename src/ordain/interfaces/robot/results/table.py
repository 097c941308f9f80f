"""Every verb and the type of what it answers: the one table, from which schemas are made.

`None` is a verb whose answer has no data: a person's verb, which refuses robots.
"""

from __future__ import annotations

from typing import Any

from ordain.core.guard.report import WatchReport
from ordain.core.lineage.decision import Asked
from ordain.core.policy.stop import StopReport
from ordain.core.report.brief import Arbitration, Brief
from ordain.core.report.report import PlanLine, RunReport, SignalReport, ToldPrompt
from ordain.core.report.simulation import Simulation
from ordain.core.report.statistics import Statistics
from ordain.interfaces.robot.results.guard import HookResult, InstallResult
from ordain.interfaces.robot.results.ledger import AuditResult, CopiedResult, RebuiltResult
from ordain.interfaces.robot.results.people import ApproversResult, ClientsResult, RevokedResult
from ordain.interfaces.robot.results.plans import (
    ComparisonResult,
    FormResult,
    LintResult,
    ListResult,
    OutputResult,
    PictureResult,
    PreparedResult,
    ReviewResult,
)
from ordain.interfaces.robot.results.runs import (
    BegunResult,
    InboxResult,
    LogResult,
    QueuedResult,
    RunResult,
    StatusResult,
)
from ordain.interfaces.robot.results.tools import AgentsResult, ToolsResult
from ordain.interfaces.robot.results.workspace import (
    ConfigResult,
    InitResult,
    PageResult,
    PostedResult,
    SchemaNames,
    SkillResult,
    TopicResult,
    TopicsResult,
    Verb,
    VerbsResult,
)

RESULTS: dict[str, tuple[Any, ...]] = {
    "run": (RunResult, PreparedResult),
    "lint": (LintResult, tuple[LintResult, ...]),
    "show": (ReviewResult, RunReport, Asked, Brief, Arbitration, OutputResult, PictureResult, ToldPrompt),
    "prepare": (PreparedResult,),
    "approve": (),
    "commit": (RunResult, BegunResult, QueuedResult),
    "status": (StatusResult,),
    "inbox": (InboxResult,),
    "answer": (),
    "resume": (RunResult, BegunResult, QueuedResult),
    "list": (ListResult,),
    "revise": (PreparedResult,),
    "reject": (PlanLine,),
    "cancel": (PlanLine, RunReport),
    "archive": (PlanLine,),
    "diff": (ComparisonResult,),
    "simulate": (Simulation,),
    "fmt": (FormResult,),
    "schema": (dict[str, Any], SchemaNames),
    "watch": (RunResult,),
    "stop": (StopReport,),
    "pause": (RunReport,),
    "signal": (SignalReport,),
    "rerun": (RunResult,),
    "stats": (Statistics,),
    "log": (LogResult,),
    "init": (InitResult,),
    "config": (ConfigResult,),
    "tools": (ToolsResult,),
    "agents": (AgentsResult,),
    "topic": (TopicsResult, TopicResult, PostedResult),
    "trust": (),
    "revoke": (RevokedResult,),
    "approver enroll": (),
    "approver list": (ApproversResult,),
    "approver revoke": (),
    "audit verify": (AuditResult,),
    "audit export": (CopiedResult,),
    "audit backup": (CopiedResult,),
    "audit restore": (),
    "audit rebuild": (RebuiltResult,),
    "explain": (PageResult,),
    "mcp token": (ClientsResult,),
    "guard report": (WatchReport,),
    "guard hook": (HookResult,),
    "guard install": (InstallResult,),
    "skill": (SkillResult,),
    "robot": (VerbsResult, Verb),
}
"""The forms a verb's data has; where there is more than one, any of them. Null, besides, where it was refused."""
