"""The commands that ask a planner: plan for a goal, replan for a run that does not get on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import msgspec

from ordain.core.plan.model import Budget
from ordain.core.plan.value import StepId
from ordain.core.plan.words import read_budget
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.interfaces.cli.output_file import write_shared
from ordain.interfaces.cli.session import REFUSED, WAITING, Session, command, document_name, in_utf8
from ordain.interfaces.view.planned import PlanningProgress, planned_lines, planned_result
from ordain.interfaces.view.preview import prepared_lines
from ordain.interfaces.view.text import visible
from ordain.planner.brief import Answered
from ordain.planner.loop import DraftEnd, PlannerNews
from ordain.planner.outcome import Planned, PlanRequest, notices_of, problems_of
from ordain.planner.planner import Planner
from ordain.planner.replan import Replanner, ReplanRequest
from ordain.records.records import names_run


def _budget(context: click.Context, option: click.Parameter, given: str | None) -> Budget | None:
    found = read_budget(given) if given is not None else None
    if isinstance(found, Problem):
        raise click.BadParameter(f"{found.detail} {' '.join(found.hints)}")
    return found


@command(example="ordain plan \"Raise the version to 1.2.0 and build the archive\" --budget '200k tokens'")
@click.argument("goal", required=False, default="", callback=in_utf8)
@click.option("-o", "--output", metavar="FILE", help="Write the document here; default: a copy in .ordain/plans.")
@click.option(
    "--constraint", "constraints", multiple=True, callback=in_utf8, metavar="TEXT", help="What every step keeps to."
)
@click.option("--budget", callback=_budget, metavar="WORDS", help="Such as '200k tokens', '$1' or '5 minutes'.")
@click.option("--revise", metavar="PLAN", help="Revise this plan, with what was said when it was rejected.")
@click.option(
    "--answer",
    "answers",
    multiple=True,
    nargs=2,
    metavar="QUESTION ANSWER",
    help="What the planner asked before, and your answer; repeatable.",
)
@click.option("--unenforced", is_flag=True, help="Let an agent plan where no sandbox keeps it from writing.")
def plan(
    session: Session,
    goal: str,
    output: str | None,
    constraints: tuple[str, ...],
    budget: Budget | None,
    revise: str | None,
    answers: tuple[tuple[str, str], ...],
    unenforced: bool,
) -> int:
    """Plan for a goal: the planner of [planner] writes a plan, which is checked and proposed. It reads the workspace
    and writes nothing; a person approves its plan like any other."""
    given = tuple(Answered(question=question, answer=answer) for question, answer in answers)
    named = session.plan_named(revise) if revise is not None else None
    request = PlanRequest(
        goal=goal, constraints=constraints, budget=budget, revise=named, answers=given, unenforced=unenforced
    )
    own = _refuse_taken(session, output, request.revise) if output is not None else False
    planner = Planner(session.app)
    planned = _drafted(session, planner, request)
    if planned.good:
        return _proposed(session, planner, planned, output, own=own)
    kept = _kept(session, planner, planned, output, own=own)
    session.refused(problems_of(planned, kept=kept), planned_result(planned, document=kept))
    session.notices(notices_of(planned))
    return WAITING if planned.drafted.end is DraftEnd.QUESTIONS else REFUSED


def _proposed(session: Session, planner: Planner, planned: Planned, output: str | None, *, own: bool) -> int:
    """Store a plan that is good, and show it; one that could not be stored after all is kept."""
    document = None
    try:
        document = _written(session, planned, output, own=own) if output is not None else None
        planned = session.run(planner.propose(planned, session.by, document))
    except Refused as refused:
        first, *others = refused.problems
        kept = document or planner.keep(planned)
        hints = first.hints if kept is None else (f"The plan is kept in {kept}.", *first.hints)
        raise Refused([msgspec.structs.replace(first, hints=hints), *others]) from refused
    return _show(session, planned, document)


def _drafted(session: Session, planner: Planner, request: PlanRequest) -> Planned:
    """What the planner came to, once a person at the terminal has answered what it asked."""
    while True:
        with _progress(session) as tell:
            planned = session.run(planner.draft(request, session.by, tell=tell))
        if planned.drafted.end is not DraftEnd.QUESTIONS or session.json or not session.terminal:
            return planned
        answers = []
        for question in planned.drafted.questions:
            said = session.ask(visible(session.clean(question)))
            if not said:
                return planned
            answers.append(Answered(question=question, answer=said))
        request = msgspec.structs.replace(request, answers=(*request.answers, *answers), used=planned.usage)


@contextlib.contextmanager
def _progress(session: Session) -> Iterator[Callable[[PlannerNews], None]]:
    """What shows a person how far the planner is."""

    def shown(line: str) -> None:
        with contextlib.suppress(OSError):  # nobody may be left to read it
            click.echo(line, err=True)

    progress = PlanningProgress(shown, session.clean)
    try:
        yield progress.tell if not session.json else lambda news: None
    finally:
        progress.end()


def _refuse_taken(session: Session, output: str, revise: str | None) -> bool:
    """Refuse a place that takes no document before anything is spent; whether the revised plan's own is there."""
    if not Path(output).exists() and not Path(output).is_symlink():
        above = next((one for one in Path(output).absolute().parents if one.exists()), Path("/"))
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise refuse("E_OUTPUT", f"{output} cannot be written: {above} takes no new file.", "Give another name.")
        return False
    own = session.app.plans.plan_line(revise).document if revise is not None else None
    if own is None or own != document_name(session, output):
        raise refuse("E_OUTPUT", f"Something is at {output} already; it was left as it is.", "Give a new name.")
    return True


def _written(session: Session, planned: Planned, output: str, *, own: bool) -> str:
    write_shared(output, planned.document.encode("utf-8", "replace"), replace=own)
    return document_name(session, output)


def _kept(session: Session, planner: Planner, planned: Planned, output: str | None, *, own: bool) -> str | None:
    """Where a document is kept that is not good enough to be proposed: what was paid for is not thrown away."""
    if not planned.document:
        return None
    if output is not None and not own:
        with contextlib.suppress(Refused):
            return _written(session, planned, output, own=False)
    return planner.keep(planned)


def _show(session: Session, planned: Planned, document: str | None) -> int:
    prepared = planned.prepared
    assert prepared is not None
    following = [prepared.approval_command or prepared.commit_command]
    where = f" The document is {document}." if document is not None else ""
    lines = prepared_lines(prepared, session.style, planned_lines(planned), where)
    notices = (*prepared.review.notices, *notices_of(planned))
    session.notices(notices_of(planned))
    return session.show(
        planned_result(planned, document=document), lines, problems=notices, next_=following, exactly=True
    )


@command(example='ordain replan RUN-Q5ZK… -m "The archive is called greet-1.1.0.tar.gz now"')
@click.argument("what", metavar="[RUN]", required=False)
@click.option("-m", "--message", "reason", callback=in_utf8, default="", help="What went wrong, or what is wanted.")
@click.option("--step", metavar="STEP", help="The step that it is about; default: the first that did not get through.")
@click.option("--recover", is_flag=True, help="Ask for advice about that step, not for the rest of the plan.")
@click.option("--budget", callback=_budget, metavar="WORDS", help="Such as '200k tokens', '$1' or '5 minutes'.")
@click.option("--unenforced", is_flag=True, help="Let an agent plan where no sandbox keeps it from writing.")
def replan(
    session: Session,
    what: str | None,
    reason: str,
    step: str | None,
    recover: bool,
    budget: Budget | None,
    unenforced: bool,
) -> int:
    """Replan a run that failed or waits: have the configured planner propose how it goes on. What passed is kept, the
    run stays as it is, and a person approves what changes."""
    runs = session.app.runs
    run_id = what if what is not None and names_run(what) else runs.newest_run(what) if what else runs.stuck_run()
    about = StepId(step) if step is not None else None
    request = ReplanRequest(
        run=run_id, step=about, reason=reason, recover=recover, budget=budget, unenforced=unenforced
    )
    with _progress(session) as tell:
        planned = session.run(Replanner(session.app).replan(request, session.by, tell=tell))
    if planned.prepared is not None:
        return _show(session, planned, None)
    session.refused(problems_of(planned), planned_result(planned, document=None))
    session.notices(notices_of(planned))
    return REFUSED
