"""The commands about plans: lint, show, prepare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ordain.app.answers import answer_ways
from ordain.core.policy.agent_choice import AgentChoice
from ordain.core.report.report import KeptOutput, LintReport, Prepared, Review, RunReport
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.interfaces.cli.output_file import write_new, write_whole
from ordain.interfaces.cli.session import (
    FINE,
    REFUSED,
    Session,
    command,
    is_document,
    is_there,
    read_document,
    read_to_store,
    with_params,
)
from ordain.interfaces.robot.results.plans import (
    lint_result,
    output_result,
    picture_result,
    prepared_result,
    review_result,
)
from ordain.interfaces.view import run as render
from ordain.interfaces.view.next_command import after_document, after_review, after_run
from ordain.interfaces.view.picture import mermaid_text, picture_lines
from ordain.interfaces.view.preview import review_lines
from ordain.interfaces.view.question import brief_lines, context_lines
from ordain.records.records import names_run


@command()
@click.argument("documents", nargs=-1, required=True, metavar="DOCUMENT…")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
@with_params
def lint(session: Session, documents: tuple[str, ...], strict: bool, params: list[tuple[str, str]]) -> int:
    """Check documents: everything wrong, with the line and the fix. Writes nothing.

    Example: ordain lint fix.plan.md
    """
    reports = []
    for path in documents:
        try:
            data, name = read_document(session, path)
        except Refused as refused:  # the other documents are still worth looking at
            reports.append(LintReport(file=path, problems=refused.problems))
        else:
            reports.append(session.app.lint(data, name, params))
    problems = [problem for report in reports for problem in report.problems]
    bad = any(not report.good for report in reports) or (strict and bool(problems))
    if session.json:
        results = [lint_result(report) for report in reports]
        result = results[0] if len(results) == 1 else results
        if bad:
            errors = dict.fromkeys(problem.code for problem in problems if strict or not problem.code.startswith("W_"))
            session.refused(problems, result, next_=[f"ordain explain {code}" for code in errors])
        else:
            session.answer(result, problems=problems, next_=after_document(documents[0], params))
    else:
        for report in reports:
            session.say(render.lint_lines(report, session.style))
    return REFUSED if bad else FINE


@command()
@click.argument("what", metavar="DOCUMENT|PLAN|RUN|RUN/STEP")
@click.option("--quiet", "detail", flag_value="quiet", help="Only steps and states; of a run, what went wrong.")
@click.option("--normal", "detail", flag_value="normal", default=True, hidden=True)
@click.option("--verbose", "detail", flag_value="verbose", help="Everything, defaults too.")
@click.option("--graph", is_flag=True, help="List which step waits for which.")
@click.option("--output", "step", metavar="STEP", help="What a step of a run wrote, as far as it is kept.")
@click.option("--brief", "planned", metavar="STEP", help="What a planner needs to know about a step of a run.")
@click.option(
    "--arbiter",
    "chosen_for",
    metavar="[STEP]",
    is_flag=False,
    flag_value="",
    help="What a model needs to know that chooses the agent of a task; without a name, of the first that is not done.",
)
@click.option(
    "--prompt", "told", metavar="STEP", help="What the agent of a step was told; of a plan, would be told now."
)
@click.option("--attempt", metavar="N", type=click.IntRange(min=1), help="With --prompt: in which attempt of a run.")
@click.option(
    "-o",
    "target",
    metavar="FILE",
    help="With --graph: write the whole picture to a file, as Mermaid. With --output: the exact bytes, to a new one.",
)
@with_params
def show(
    session: Session,
    what: str,
    params: list[tuple[str, str]],
    detail: str,
    graph: bool,
    step: str | None,
    planned: str | None,
    chosen_for: str | None,
    told: str | None,
    attempt: int | None,
    target: str | None,
) -> int:
    """Show what a document or plan would do, how a run stands, what it asks about a step, what the step wrote, or what
    its agent is told.

    Example: ordain show fix.plan.md
    """
    if target is not None and not graph and step is None:
        raise click.UsageError("-o writes a picture or an output; it goes with --graph or --output.")
    if step is not None and (graph or not names_run(what)):
        raise click.UsageError("--output is for a step of a run, and not for a picture.")
    if planned is not None and (graph or step is not None or not names_run(what)):
        raise click.UsageError("--brief is for a step of a run, and for nothing else.")
    if told is not None and (graph or step is not None or planned is not None):
        raise click.UsageError("--prompt is for a step, and not for a picture, an output or a brief.")
    if attempt is not None and (told is None or not names_run(what)):
        raise click.UsageError("--attempt goes with --prompt and a run.")
    is_item = "/" in what and names_run(what.partition("/")[0])
    if chosen_for is not None and (graph or step is not None or planned is not None or is_item or is_document(what)):
        raise click.UsageError("--arbiter is for a task of a run or of a stored plan, and for nothing else.")
    parts = (step, planned, chosen_for, told)
    if graph or any(part is not None for part in parts) or is_item:
        session.refuse_table("a part of a plan or run")
    if chosen_for is not None:
        return _show_arbiter(session, what, chosen_for or None)
    if planned is not None:
        return _show_brief(session, what, planned)
    if told is not None:
        return _show_prompt(session, what, params, told, attempt)
    if is_item:
        return _show_question(session, what)
    if step is not None:
        return _show_output(session, what, step, target)
    if graph:
        return _show_graph(session, what, params, target)
    if names_run(what):
        report = session.app.run(what)
        if session.json:
            session.answer(report, next_=after_run(report))
        else:
            session.say(render.run_lines(report, session.style, verbose=detail == "verbose", quiet=detail == "quiet"))
        return FINE
    review = _review(session, what, params)
    if session.json:
        session.answer(review_result(review), problems=review.notices, next_=_after_review(review, what, params))
    else:
        session.say(review_lines(review, session.style, detail=detail), exactly=True)
    return FINE


def _show_question(session: Session, item: str) -> int:
    """Show what a run asks a person, with all that is known about it."""
    asked = session.app.asked(item)
    if session.json:
        session.answer(asked, next_=[asked.question.asking])
        return FINE
    session.say(context_lines(asked.question, session.app.now(), session.style))
    for command_line, meaning in answer_ways(asked.question):
        session.say([f"  → {session.style.bold(render.visible(command_line))}"])
        session.say([f"      {meaning}"] if meaning else [])
    return FINE


def _show_brief(session: Session, run: str, step: str) -> int:
    """Show everything about a step of a run that a planner needs."""
    found = session.app.brief(run, step)
    if session.json:
        session.answer(found, next_=[found.question.asking] if found.question is not None else ())
    else:
        session.say(brief_lines(found, session.style))
    return FINE


def _show_arbiter(session: Session, what: str, step: str | None) -> int:
    """Show what a model needs to know that chooses who performs a task."""
    found = session.app.arbiter(what, step)
    if session.json:
        session.answer(found)
    else:
        session.say(map(render.visible, found.text.removesuffix("\n").split("\n")))
    return FINE


def _show_prompt(session: Session, what: str, params: list[tuple[str, str]], step: str, attempt: int | None) -> int:
    """Show what an agent was told, with nothing in it that a terminal would act on; or what one would be told."""
    notices: Sequence[Problem] = ()
    if names_run(what):
        found = session.app.prompt_told(what, step, attempt)
        words = f"What {found.agent} was told in attempt {found.attempt} of {found.run_id}:"
    else:
        review = _review(session, what, params)
        found, notices = session.run(session.app.prompt_of(review.plan, step)), review.notices
        words = f"What {found.agent or 'nobody yet'} would be told now; what is read may be other by then:"
    if session.json:
        session.answer(found, problems=notices, next_=[f"ordain show {found.run_id}"] if found.run_id else ())
        return FINE
    # To standard error, so that what is printed is the prompt and nothing else.
    click.echo(render.visible(words), err=True)
    for missing in found.missing:
        click.echo(render.visible(f"Not there, so that no agent would be started: {missing}."), err=True)
    session.say_output(session.output_texts([found.prompt.encode("utf-8", "replace")], whole=True))
    return FINE


def _show_output(session: Session, run: str, step: str, target: str | None) -> int:
    """Show what a step wrote, redacted and with nothing in it that a terminal would act on; or write it to a file."""
    if target is not None:
        found, parts = session.app.exact_output(run, step, session.by)
        write_new(target, parts)
        session.say([f"Wrote {render.visible(target)}: {_much(found)}, exactly as they came, secrets too."])
        return FINE
    found, parts = session.app.output(run, step)
    whole = found.kept_bytes == found.output_bytes
    texts = session.output_texts(parts, whole=whole)
    if session.json:
        session.answer(output_result(found, output="".join(texts)), next_=[f"ordain show {found.run_id}"])
        return FINE
    if not whole:
        click.echo(f"Kept are {_much(found)}:", err=True)
    session.say_output(texts)
    return FINE


def _much(found: KeptOutput) -> str:
    if found.kept_bytes < found.output_bytes:
        return f"the last {found.kept_bytes:,} of {found.output_bytes:,} bytes"
    return f"{found.output_bytes:,} bytes"


def _show_graph(session: Session, what: str, params: list[tuple[str, str]], output: str | None) -> int:
    """Draw a plan, or write its picture to a file."""
    notices: Sequence[Problem] = ()
    if names_run(what):
        run: RunReport | None = session.app.run(what)
        assert run is not None
        plan = session.app.stored(run.plan_id).plan
        agents = {str(step.id): step.agent.agent for step in run.steps if isinstance(step.agent, AgentChoice)}
        following = after_run(run)
    else:
        review = _review(session, what, params)
        plan, run, notices = review.plan, review.run, review.notices
        agents = {task.step: task.agent for task in review.tasks}
        following = _after_review(review, what, params)
    if output == "-":
        if session.json:
            picture = picture_result(plan, run, mermaid=mermaid_text(plan, run))
            session.answer(picture, problems=notices, next_=following)
        else:
            click.echo(mermaid_text(plan, run), nl=False)
        return FINE
    if output is not None:
        if is_there(what) and is_there(output) and Path(output).samefile(what):
            raise refuse("E_OUTPUT", f"{output} is the document itself; it was left as it is.", "Give another name.")
        write_whole(output, mermaid_text(plan, run).encode())
    if session.json:
        session.answer(picture_result(plan, run, output), problems=notices, next_=following)
    elif output is not None:
        count = f"{len(plan.steps)} step{'s' * (len(plan.steps) != 1)}"
        session.say([f"Wrote {render.visible(output)}: {count}, as a Mermaid flowchart."])
    else:
        session.say(picture_lines(plan, run, session.style, agents))
    return FINE


def _after_review(review: Review, what: str, params: list[tuple[str, str]]) -> list[str]:
    return after_document(what, params) if review.lineage is None else after_review(review)


def _review(session: Session, what: str, params: list[tuple[str, str]]) -> Review:
    """A review of a file when there is one by that name, else of a stored plan."""
    if is_document(what, params):
        data, name = read_document(session, what)
        return session.app.review_document(data, name, params)
    return session.app.review(what)


@command()
@click.argument("document")
@with_params
def prepare(session: Session, document: str, params: list[tuple[str, str]]) -> int:
    """Check a document, store its plan, and show what it will do. What was stored is what can be approved and run.

    Example: ordain prepare fix.plan.md
    """
    data, name = read_to_store(session, document)
    return say_prepared(session, session.run(session.app.prepare(data, name, session.by, params)))


def say_prepared(session: Session, prepared: Prepared) -> int:
    """What was stored, and what comes next."""
    if session.json:
        session.answer(
            prepared_result(prepared),
            problems=prepared.review.notices,
            next_=[prepared.approval_command or prepared.commit_command],
        )
    else:
        session.say(review_lines(prepared.review, session.style), exactly=True)
        session.say(["", f"Stored as {prepared.lineage}, good until {render.instant(prepared.expires_at)}. Next:"])
        session.say([f"  → {session.style.bold(prepared.approval_command or prepared.commit_command)}"])
    return FINE
