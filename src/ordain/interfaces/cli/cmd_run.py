"""The commands about runs: run, commit, resume, status, answer, log."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click
import msgspec

from ordain.core.approval.approval import Channel, Principal
from ordain.core.plan.canonical import short_id
from ordain.core.plan.value import RunId
from ordain.core.report.report import Prepared
from ordain.core.run.attempt import ABORT, CHECK, DONE
from ordain.core.run.event import Recorded
from ordain.interfaces.cli import execution
from ordain.interfaces.cli.decision import EndOfInput, ask_approval, decide, read_answer
from ordain.interfaces.cli.session import FINE, REFUSED, WAITING, Session, command, read_to_store, with_params
from ordain.interfaces.cli.signals import INTERRUPTED
from ordain.interfaces.view.event import log_line
from ordain.interfaces.view.next_command import after_line, after_run
from ordain.interfaces.view.preview import review_lines
from ordain.interfaces.view.report import StatusResult, log_result
from ordain.interfaces.view.run import instant, run_lines, status_lines

_ENDED_SHOWN = 5


@command(example="ordain run fix.plan.md")
@click.argument("document")
@click.option("--as", "whose", metavar="NAME", help="Whose key signs the approval.")
@with_params
def run(session: Session, document: str, params: list[tuple[str, str]], whose: str | None) -> int:
    """Check a document, show what it will do, ask for approval if policy requires it, run it and report."""
    data, name = read_to_store(session, document)
    prepared = session.run(session.app.plans.prepare(data, name, session.by, params))
    review = prepared.review
    session.app.runs.startable(review.plan_id)
    if not review.requires_approval:
        session.notices(review.notices)
        if not session.json:
            session.say(review_lines(review, session.style, detail="quiet"), exactly=True)
        waits, events = execution.waiting(session), execution.watcher(session, events=True)
        work = session.app.runs.commit(
            review.plan_id, session.by, events, waiting=waits, preparation=prepared.preparation
        )
        return execution.carry_out(session, work, review.notices)
    if session.json or not session.terminal:
        detail = "This plan needs a person's approval, and nobody at a terminal can be asked here."
        return execution.ask_elsewhere(session, prepared, detail, "A person approves and starts it with:")
    approved = ask_approval(session, review, whose)
    return execution.approve_and_start(session, approved) if approved is not None else _withdraw(session, prepared)


def _withdraw(session: Session, prepared: Prepared) -> int:
    """After a no: what is left of the proposal, and a way to be rid of it. Enter leaves it as it is."""
    short = short_id(prepared.review.plan_id)
    session.say(
        [
            "Not approved; nothing was run.",
            f"The proposal stays, waiting for approval until {instant(prepared.expires_at)}:",
            f"  → {session.style.bold(f'ordain approve {short} --start')}",
        ]
    )
    if not session.input_ended and (session.ask("Withdraw it? (y/N)") or "").lower() in ("y", "yes"):
        session.run(session.app.plans.cancel(prepared.review.plan_id, session.by, ""))
        session.say([f"Withdrawn. Nobody can approve {short} any more."])
    return REFUSED


@command(example="ordain commit 4f2a9c01b7de")
@click.argument("plan", metavar="[PLAN]", required=False)
@click.option("--detach", "in_background", is_flag=True, help="Carry it out in the background.")
@click.option("--preparation", metavar="PREP-…", help="Which preparation; it starts one run. Default: the newest.")
@click.option("--on-behalf", metavar="JSON", hidden=True, help="The client of the MCP server that asked for it.")
@execution.no_wait
def commit(
    session: Session,
    plan: str | None,
    in_background: bool,
    no_waiting: bool,
    preparation: str | None,
    on_behalf: str | None,
) -> int:
    """Start the approved run of a plan. What runs is exactly what was prepared and approved. Called again, it reports
    the run that it started. Without PLAN, it takes the one that can be started."""
    plan = session.plan_named(plan) if plan is not None else session.only_plan("commit")
    session.app.plans.refuse_edited(plan, "commit")  # before a notice that says the opposite
    if in_background:
        if session.app.runs.begun(plan, preparation) is None:
            session.app.runs.startable(plan)
        words = ["commit", plan, *(["--no-wait"] if no_waiting else [])]
        words += ["--preparation", preparation] if preparation is not None else []
        return execution.detach(session, words, lambda: session.app.runs.executing(plan))
    notices = session.app.plans.review(plan).notices
    session.notices(notices)
    by = session.by if on_behalf is None else _client(on_behalf)
    waits = execution.waiting(session, no_waiting)
    work = session.app.runs.commit(plan, by, execution.watcher(session), waiting=waits, preparation=preparation)
    return execution.carry_out(session, work, notices, commits=True)


def _client(text: str) -> Principal:
    """The client that our own server asks for; whoever else says so gets no more than such a client may do."""
    try:
        by = msgspec.json.decode(text, type=Principal)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"--on-behalf is for the MCP server: {error}.") from error
    if by.channel is not Channel.MCP:
        raise click.UsageError("--on-behalf is for clients of the MCP server.")
    return by


@command(example="ordain resume")
@click.argument("run_ref", metavar="[RUN]", required=False)
@click.option("--detach", "in_background", is_flag=True, help="Carry it out in the background.")
@click.option("--take-over", is_flag=True, help="End the process that is at work on it first, frozen or not.")
@execution.no_wait
def resume(session: Session, run_ref: str | None, in_background: bool, take_over: bool, no_waiting: bool) -> int:
    """Resume an interrupted or paused run, or one that waited for an answer; by default the only one."""
    run_id = session.app.runs.find_run(run_ref)
    notices = session.app.runs.run_notices(run_id)
    session.notices(() if session.json else notices)
    # One that only a person can help is not carried out, here or in the background.
    if in_background and session.app.runs.run(run_id).status != "waiting":
        options = {"--take-over": take_over, "--no-wait": no_waiting}
        words = ["resume", run_id, *(option for option, given in options.items() if given)]
        before = session.app.runs.run(run_id).executors

        def begun() -> RunId | None:
            report = session.app.runs.run(run_id)
            return run_id if report.executors > before else None

        return execution.detach(session, words, begun)
    return execution.carry_out(
        session, execution.resumed(session, run_id, no_waiting=no_waiting, take_over=take_over), notices
    )


@command(example="ordain status")
def status(session: Session) -> int:
    """Show what is running, what waits for whom, and the next command."""
    session.expire_overdue()
    open_plans = session.app.plans.all(open_only=True)
    known = {line.lineage for line in open_plans}
    plans = (*(line for line in session.app.plans.all(newest=_ENDED_SHOWN) if line.lineage not in known), *open_plans)
    result = StatusResult(
        workspace=session.app.workspace.workspace_path, plans=plans, count=session.app.plans.plan_count()
    )
    commands = [command for line in plans if line.run is not None for command in after_run(line.run)]
    commands += [command for line in plans if line.run is None and (command := after_line(line))]
    lines = status_lines(plans, result.workspace, result.count, session.style)
    return session.show(result, lines, notices=session.app.workspace.settings()[2], next_=commands)


@command(example="ordain answer RUN-Q5ZK…/send-mail happened --resume")
@click.argument("what", metavar="[RUN/STEP]", required=False)
@click.argument("word", metavar="[ANSWER]", required=False)
@click.option("--value", "json_text", metavar="JSON", help="The answer as a JSON value; with `done`, what it gave.")
@click.option(
    "-m", "said", metavar="TEXT", default="", help="What you say with it: the result, why not, or what to try next."
)
@click.option("--resume", "go_on", is_flag=True, help="Go on with the run at once.")
@click.option("--sign", is_flag=True, help="Sign the answer with an enrolled key.")
@click.option("--as", "name", metavar="NAME", help="Whose key; default: the one of yours that is enrolled here.")
def answer(
    session: Session,
    what: str | None,
    word: str | None,
    json_text: str | None,
    said: str,
    go_on: bool,
    sign: bool,
    name: str | None,
) -> int:
    """Answer what a run asks a person: a question of the plan, a task, an escalation, a step in doubt. Without ANSWER
    it shows everything known about the question and asks; a running executor takes the answer at once. RUN/STEP can be
    left out where one question is open: `ordain answer happened`."""
    if what is not None and word is None and json_text is None and not session.app.answers.names_question(what):
        what, word = None, what  # `ordain answer happened`
    if word not in (None, DONE) and json_text is not None:
        raise click.UsageError("An answer is either ANSWER or --value JSON, but for `done` with what it gave.")
    if said and word is None:
        raise click.UsageError("-m goes with ANSWER.")
    given = read_answer(word, json_text, said)
    typed = ["-m", shlex.quote(said)] if said else []
    typed += ["--value", shlex.quote(json_text)] if json_text is not None else []
    typed += [shlex.quote(word)] if word is not None else []
    if go_on:
        session.app.workspace.refuse_stopped()  # before anybody is asked anything
    item = session.app.answers.item_meant(what, word or "")
    session.app.answers.asked(item)  # whoever may not answer is told a command only where it would help
    session.needs_person("answer this", " ".join(["ordain answer", shlex.quote(item), *typed]))
    if session.json:
        session.run(session.app.answers.answer(item, given or "", session.by))  # refused: robots can only ask
        return WAITING
    try:
        decided = decide(session, item, given, sign=sign, name=name, unseen="@" in item and "@" not in (what or item))
    except EndOfInput:
        decided = None
    if decided is None:
        session.say(["Not answered; nothing was recorded."])
        return REFUSED
    report, chosen = decided
    if report.status in ("stopped", "paused") and (go_on or chosen == ABORT):
        return execution.carry_out(session, execution.resumed(session, report.run_id))
    if report.status in ("stopped", "paused") and chosen == CHECK:
        # Its contract is run now; that nothing else begins is what an answer without --resume means.
        status = execution.look_on(session, execution.resumed(session, report.run_id, verify_only=True))
        return FINE if status == INTERRUPTED else status  # it stopped because nothing else was asked of it
    session.say(run_lines(report, session.style))
    if report.status in ("stopped", "paused"):
        session.say(["", f"  → {session.style.bold(f'ordain resume {report.run_id}')}"])
    return FINE


@command(example="ordain log RUN-Q5ZK…")
@click.argument("what", metavar="[PLAN|RUN]", required=False)
@click.option("--refused", is_flag=True, help="What agents and scripts asked for and may not have; the newest.")
def log(session: Session, what: str | None, refused: bool) -> int:
    """Show the ledger's events about a plan or a run; without an argument, about the workspace."""
    if refused and what is not None:
        raise click.UsageError("--refused is about the workspace, and not about a plan or a run.")
    if refused:
        events: Sequence[Recorded] = session.app.refusals.newest()
    else:
        events = session.app.plans.log(session.plan_named(what) if what is not None else None)
    result = log_result(events)
    return session.show(result, map(log_line, events, result.events))
