"""Every verb and the type of what it answers: the one table, from which schemas are made.

`None` is a verb whose answer has no data: a person's verb, which refuses robots.
"""

from __future__ import annotations

from typing import Any

from ordain.core.arbiter import Arbitration
from ordain.core.brief import Brief
from ordain.core.decision import Asked
from ordain.core.report import PlanLine, RunReport, SignalReport, ToldPrompt
from ordain.core.simulation import Simulation
from ordain.core.statistics import Statistics
from ordain.core.watch import WatchReport
from ordain.interfaces.results.agents import AgentsResult
from ordain.interfaces.results.around import (
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
from ordain.interfaces.results.comparing import ComparisonResult
from ordain.interfaces.results.guard_hosts import HookResult, InstallResult
from ordain.interfaces.results.ledger import AuditResult, CopiedResult, RebuiltResult
from ordain.interfaces.results.people import ApproversResult, ClientsResult, RevokedResult
from ordain.interfaces.results.plans import (
    DialectResult,
    FormResult,
    LintResult,
    ListResult,
    OutputResult,
    PictureResult,
    PreparedResult,
    ReviewResult,
)
from ordain.interfaces.results.runs import (
    BegunResult,
    InboxResult,
    LogResult,
    QueuedResult,
    RunResult,
    StatusResult,
)
from ordain.interfaces.results.tools import ToolsResult

__all__ = ["RESULTS"]

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
    "fmt": (FormResult, DialectResult),
    "schema": (dict[str, Any], SchemaNames),
    "watch": (RunResult,),
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
