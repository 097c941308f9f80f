"""The commands that show what plans mean: show (also runs, and parts of both), diff, simulate."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from ordain.core.approval.diff.difference import Side
from ordain.core.plan.canonical import short_id
from ordain.core.policy.agent import AgentChoice
from ordain.core.report.report import KeptOutput, Review, RunReport, ToldPrompt
from ordain.core.report.transcript import Transcript, transcript_text
from ordain.core.text.problem import Problem, refuse
from ordain.interfaces.cli.output_file import write_new, write_whole
from ordain.interfaces.cli.session import FINE, Session, command, is_document, is_there, read_document, with_params
from ordain.interfaces.view.diff import comparison_result, difference_lines
from ordain.interfaces.view.mermaid import is_grouped, mermaid_text
from ordain.interfaces.view.next_command import after_document, after_review, after_run, if_it_can_run
from ordain.interfaces.view.picked import picked
from ordain.interfaces.view.picture import picture_lines, picture_result
from ordain.interfaces.view.preview import review_lines
from ordain.interfaces.view.question import brief_lines, question_lines
from ordain.interfaces.view.report import OutputResult, review_result, warnings
from ordain.interfaces.view.run import run_lines
from ordain.interfaces.view.simulation import simulation_lines
from ordain.interfaces.view.text import visible
from ordain.records.records import names_document, names_run

_USES = {
    "output": "--output is for a step of a run, and not for a picture.",
    "brief": "--brief is for a step of a run, and for nothing else.",
    "prompt": "--prompt is for a step, and not for a picture, an output or a brief.",
    "transcript": "--transcript is for a step of a run, and for nothing else.",
}
"""Parts of runs and plans, each shown without those before it."""


@command(example="ordain show fix.plan.md")
@click.argument("named", metavar="[DOCUMENT|PLAN|RUN|RUN/STEP]", required=False)
@click.option("--quiet", "detail", flag_value="quiet", help="Only steps and states; of a run, what went wrong.")
@click.option("--normal", "detail", flag_value="normal", default=True, hidden=True)
@click.option("--verbose", "detail", flag_value="verbose", help="Everything, defaults too.")
@click.option("--graph", is_flag=True, help="List which step waits for which.")
@click.option("--output", metavar="STEP", help="What a step of a run wrote, as far as it is kept.")
@click.option("--brief", metavar="STEP", help="What a planner needs to know about a step of a run.")
@click.option(
    "--arbiter",
    metavar="[STEP]",
    is_flag=False,
    flag_value="",
    help="What a model needs to know that chooses the agent of a task; without a name, of the first that is not done.",
)
@click.option("--prompt", metavar="STEP", help="What the agent of a step was told; of a plan, would be told now.")
@click.option("--transcript", metavar="STEP", help="What was said with the model that did a step of a run.")
@click.option("--attempt", metavar="N", type=click.IntRange(min=1), help="With --prompt or --transcript: which one.")
@click.option(
    "-o",
    "target",
    metavar="FILE",
    help="With --graph: write the whole picture to a file, as Mermaid. With --output: the exact bytes, to a new one.",
)
@with_params
def show(
    session: Session,
    named: str | None,
    params: list[tuple[str, str]],
    detail: str,
    graph: bool,
    attempt: int | None,
    target: str | None,
    **parts: str | None,
) -> int:
    """Show what a document or plan would do, how a run stands, what it asks about a step, what the step wrote, or what
    its agent is told. Without a name, the one plan or run that is open."""
    what = named if named is not None else session.only_thing()
    if target is not None and not graph and parts["output"] is None:
        raise click.UsageError("-o writes a picture or an output; it goes with --graph or --output.")
    given = graph
    for part, use in _USES.items():
        if parts[part] is not None and (given or (part in ("output", "brief") and not names_run(what))):
            raise click.UsageError(use)
        given = given or parts[part] is not None
    step, planned, told, said, chosen_for = (parts[part] for part in (*_USES, "arbiter"))
    if (attempt is not None or said is not None) and ((told is None and said is None) or not names_run(what)):
        raise click.UsageError("--attempt goes with --prompt or --transcript, and both with a run.")
    is_item = "/" in what and names_run(what.partition("/")[0])
    if chosen_for is not None and (graph or step is not None or planned is not None or is_item or is_document(what)):
        raise click.UsageError("--arbiter is for a task of a run or of a stored plan, and for nothing else.")
    if is_item or (not graph and not names_run(what) and names_document(what) and not is_document(what)):
        is_item = is_item or session.app.answers.names_question(what)
        what = session.app.answers.item_meant(what) if is_item else what
    if graph or any(part is not None for part in parts.values()) or is_item:
        session.refuse_table("a part of a plan or run")
    if chosen_for is not None:
        arbitration = session.app.plans.arbiter(what, chosen_for or None)
        return session.show(arbitration, map(visible, arbitration.text.removesuffix("\n").split("\n")))
    if planned is not None:
        brief = session.app.runs.brief(what, planned)
        following = [brief.question.asking] if brief.question is not None else []
        return session.show(brief, brief_lines(brief, session.style), next_=following)
    if told is not None:
        return _show_prompt(session, what, params, told, attempt)
    if said is not None:
        found = session.app.runs.transcript(what, said, attempt)
        words = (
            f"What was said with {found.model} at {found.address} in attempt {found.attempt}; none of it is evidence:"
        )
        return _show_text(session, found, [words], transcript_text(found))
    if is_item:
        asked = session.app.answers.asked(what)
        lines = question_lines(asked.question, session.app.workspace.now(), session.style)
        return session.show(asked, lines, next_=[asked.question.asking])
    if step is not None:
        return _show_output(session, what, step, target)
    if graph:
        return _show_graph(session, what, params, target)
    if names_run(what):
        report = session.app.runs.run(what)
        verbose, removed = detail == "verbose", session.app.runs.removed_outputs(report.run_id)
        lines = run_lines(report, session.style, verbose=verbose, quiet=detail == "quiet", removed=removed)
        notices = (*warnings(report), *session.app.runs.removed(what))
        return session.show(report, lines, notices=notices, next_=after_run(report))
    review = _review(session, what, params)
    lines, following = review_lines(review, session.style, detail=detail), _after_review(review, what, params)
    return session.show(review_result(review), lines, problems=review.notices, next_=following, exactly=True)


def _show_prompt(session: Session, what: str, params: list[tuple[str, str]], step: str, attempt: int | None) -> int:
    notices: Sequence[Problem] = ()
    if names_run(what):
        found = session.app.runs.prompt_told(what, step, attempt)
        words = f"What {found.agent} was told in attempt {found.attempt} of {found.run_id}:"
    else:
        review = _review(session, what, params)
        found, notices = session.run(session.app.plans.prompt_of(review.plan, step)), review.notices
        words = f"What {found.agent or 'nobody yet'} would be told now; what is read may be other by then:"
    missing = [f"Not there, so that no agent would be started: {one}." for one in found.missing]
    return _show_text(session, found, [words, *missing], found.prompt, notices)


def _show_text(
    session: Session, found: ToldPrompt | Transcript, about: list[str], text: str, notices: Sequence[Problem] = ()
) -> int:
    if session.json:
        session.answer(found, problems=notices, next_=[f"ordain show {found.run_id}"] if found.run_id else ())
        return FINE
    for line in about:  # to standard error, so that what is printed is the text and nothing else
        click.echo(visible(line), err=True)
    session.say_output(session.output_texts([text.encode("utf-8", "replace")], whole=True))
    return FINE


def _show_output(session: Session, run: str, step: str, target: str | None) -> int:
    if target is not None:
        found, parts = session.app.runs.exact_output(run, step, session.by)
        write_new(target, parts)
        session.say([f"Wrote {visible(target)}: {_much(found)}, exactly as they came, secrets too."])
        return FINE
    found, parts = session.app.runs.output(run, step)
    whole = found.kept_bytes == found.output_bytes
    texts = session.output_texts(parts, whole=whole)
    if session.json:
        session.answer(
            picked(OutputResult, found, written=None, output="".join(texts)), next_=[f"ordain show {found.run_id}"]
        )
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
    notices: Sequence[Problem] = ()
    if names_run(what):
        run: RunReport | None = session.app.runs.run(what)
        assert run is not None
        plan = session.app.plans.stored(run.plan_id).plan
        agents = {str(step.id): step.agent.agent for step in run.steps if isinstance(step.agent, AgentChoice)}
        following = after_run(run)
    else:
        review = _review(session, what, params)
        plan, run, notices = review.plan, review.run, review.notices
        agents = {task.step: task.agent for task in review.tasks}
        following = _after_review(review, what, params)
    if output == "-":
        text = mermaid_text(plan, run)
        return session.give(text, picture_result(plan, run, mermaid=text), problems=notices, next_=following)
    lines = picture_lines(plan, run, session.style, agents)
    if output is not None:
        if is_there(what) and is_there(output) and Path(output).samefile(what):
            raise refuse("E_OUTPUT", f"{output} is the document itself; it was left as it is.", "Give another name.")
        text = mermaid_text(plan, run)
        write_whole(output, text.encode())
        count = f"{len(plan.steps):,} step{'s' * (len(plan.steps) != 1)}"
        groups = (
            ", in groups that can begin together: Mermaid draws no more than 500 arrows" if is_grouped(text) else ""
        )
        lines = iter([f"Wrote {visible(output)}: {count}, as a Mermaid flowchart{groups}."])
    return session.show(picture_result(plan, run, output), lines, problems=notices, next_=following)


def _after_review(review: Review, what: str, params: list[tuple[str, str]]) -> list[str]:
    following = after_document(what, params) if review.lineage is None else after_review(review)
    return if_it_can_run(following, review.notices) if review.run is None else following


def _review(session: Session, what: str, params: list[tuple[str, str]]) -> Review:
    if is_document(what, params):
        data, name = read_document(session, what)
        return session.app.plans.review_document(data, name, params)
    return session.app.plans.review(what)


@command(example="ordain diff fix.plan.md")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="[NEW]", required=False)
@with_params
def diff(session: Session, old: str, new: str | None, params: list[tuple[str, str]]) -> int:
    """Compare two plans: weaker checks, wider scope and new effects come first.

    Each is a document, a stored plan, or `-` for standard input. A document alone is compared with the plan that was
    prepared from it last; where they are one plan, with the version before."""
    documents = [is_document(one) for one in (old, new) if one is not None]
    if old == new == "-":
        raise click.UsageError("Standard input can be read only once.")
    if params and not any(documents):
        raise click.UsageError("--param is for documents; a stored plan has all its values.")
    # Two templates are compared as they stand; a stored plan is compared with what a template becomes.
    values = params if params or not all(documents) or new is None else None
    if new is None:
        if not documents[0] or old == "-":
            raise click.UsageError("One argument is a document that was prepared before; give two to compare others.")
        data, name = read_document(session, old)
        after = session.app.plans.in_document(data, name, values)
        before = session.app.plans.last_prepared(name)
        if before.plan_id == after.plan_id:  # prepared as it is now: what changed is what changed by that
            before = session.app.plans.prepared_before(name, after.plan_id) or before
    else:
        before, after = (_side(session, one, values) for one in (old, new))
    found = session.app.plans.diff(before, after)
    # Only what is stored is known to hold no secret.
    stored = found.old.lineage is not None and found.new.lineage is not None
    lines, document = difference_lines(found, session.style), new or old
    # A stored plan can be replaced by what its document has become.
    changed = found.old.lineage is not None and found.new.lineage is None and not found.difference.empty
    command_line = f"ordain revise {short_id(found.old.plan_id)} {shlex.quote(document)}"
    following = [command_line] if changed and document != "-" else []
    return session.show(comparison_result(found), lines, next_=following, exactly=stored)


def _side(session: Session, what: str, params: list[tuple[str, str]] | None) -> Side:
    if not is_document(what):
        return session.app.plans.stored(what)
    data, name = read_document(session, what)
    return session.app.plans.in_document(data, name, params)


@command(example="ordain simulate fix.plan.md")
@click.argument("what", metavar="DOCUMENT|PLAN")
@with_params
def simulate(session: Session, what: str, params: list[tuple[str, str]]) -> int:
    """Show how a run would go: waves, waiting, what is decided at run time, which contracts hold already.

    Contracts run for a person at a terminal only, in the sandbox of tier 1, where they write nothing and see no more
    than the workspace. With --json, in scripts, and where there is no sandbox, nothing runs."""
    if is_document(what, params):
        data, name = read_document(session, what)
        simulated = session.run(session.app.plans.simulate_document(data, name, params, session.by))
        following = if_it_can_run(after_document(what, params), simulated.notices)
    else:
        simulated = session.run(session.app.plans.simulate(what, session.by))
        following = _after_review(session.app.plans.review(what), what, params)
    lines = simulation_lines(simulated, session.style)
    return session.show(simulated, lines, notices=simulated.notices, next_=following)
