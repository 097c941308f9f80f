"""The verbs that make documents: of a template and values, or of several documents. They store nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from ordain.app.lint import Params, placed
from ordain.app.review import Reviews
from ordain.core.plan.canonical import plan_id
from ordain.core.plan.compose import compose
from ordain.core.plan.model import Plan
from ordain.core.plan.template import Filled
from ordain.core.plan.template_text import fill_template, wanted
from ordain.core.policy.settings import Settings
from ordain.core.report.template import NewDocument, TemplateLine, TemplateList, template_parameters
from ordain.core.text.path import handed_fault
from ordain.core.text.problem import Problem, Refused, Severity, closest, refuse
from ordain.documents.document import Document, Notation
from ordain.documents.format import written
from ordain.documents.reading import read
from ordain.documents.typed_value import read_values
from ordain.ports.workspace import TEMPLATE_BYTES_MAX, TEMPLATE_ENDINGS, TemplateFile
from ordain.records.surroundings import Surroundings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LISTED_MAX = 200
_UNKNOWN_TO_OTHERS = ("plan_id", "step_id")
"""What a template says of itself that is not so of what is made of it."""


class Templates:
    """Templates of one workspace, of its user, and of Ordain."""

    def __init__(self, here: Surroundings, reviews: Reviews) -> None:
        self._here, self._reviews = here, reviews

    def all(self) -> TemplateList:
        """Every template, with its parameters. One that cannot be read is there with its problems."""
        seen: set[str] = set()
        lines = []
        for name, file in self._files():
            lines.append(_line(name, file, hidden=name in seen))
            seen.add(name)
        return TemplateList(templates=tuple(lines))

    def new(self, name: str, params: Params, to: Notation | None = None) -> tuple[NewDocument, tuple[Problem, ...]]:
        """The document that a template becomes with these values, and what lint says of it; raises Refused."""
        files = [file for known, file in self._files() if known == name]
        if not files:
            raise self._unknown(name)
        file = files[0]
        source = _readable(file)
        assert source.plan is not None
        values, wrong = read_values(source.plan.params, params)
        unread = {given for given, _ in params if given not in values}
        made = fill_template(source.plan, values, self._reviews.matching(source.plan), unread)
        if not isinstance(made, Filled):
            raise Refused((*wrong, *(_of_template(one, source, file) for one in made)))
        kept = {step.id for step in (*made.plan.steps, *made.plan.fallbacks)}
        document = replace(source, plan=made.plan, record=_record(source.record, kept))
        return self.document(document, to or source.notation, tuple(_called(one) for one in files))

    def compose(
        self,
        documents: Sequence[tuple[str, bytes, str]],
        *,
        title: str | None = None,
        parallel: bool = False,
        to: Notation | None = None,
    ) -> tuple[NewDocument, tuple[Problem, ...]]:
        """One document of several, each with its namespace, bytes and file name; raises Refused where they conflict."""
        sources = [(space, read(data, file, self._here.fetch)) for space, data, file in documents]
        if wrong := [one for _, source in sources if source.plan is None for one in source.problems]:
            raise Refused(wrong)
        made = compose([(space, source.plan) for space, source in sources if source.plan], title, parallel=parallel)
        if not isinstance(made, Plan):
            raise Refused(made)
        document = Document(plan=made, notes=tuple(note for _, source in sources for note in source.notes))
        return self.document(document, to or sources[0][1].notation, tuple(file for _, _, file in documents))

    def document(
        self, document: Document, notation: Notation, sources: tuple[str, ...]
    ) -> tuple[NewDocument, tuple[Problem, ...]]:
        """A document as it is to be written, and what lint says of it."""
        text = written(document, notation)
        if not isinstance(text, str):
            raise Refused(replace(one, where=None) for one in text if one.severity is not Severity.WARNING)
        again, problems = self._reviews.lint(text.encode(), None, None)
        plan = again.plan
        assert plan is not None
        problems += self._reviews.untrusted(problems)
        made = NewDocument(
            text=text,
            notation=notation,
            plan_id=plan_id(plan),
            title=plan.title,
            steps=len(plan.steps),
            sources=sources,
        )
        return made, problems

    def _files(self) -> Iterator[tuple[str, TemplateFile]]:
        for file in (*self._of_workspace(), *self._here.ports.templates()):
            name = _name_of(file.file)
            if name is not None:
                yield name, file

    def _of_workspace(self) -> Iterator[TemplateFile]:
        settings = self._here.snapshot.settings if self._here.has_ledger() else Settings()
        workspace = self._here.ports.workspace
        names = [name for ending in TEMPLATE_ENDINGS for name in workspace.files(f"{settings.templates}/*{ending}")]
        for name in list(dict.fromkeys(names))[:_LISTED_MAX]:
            if handed_fault(name, touched=True) is not None:
                continue
            try:
                data, size = workspace.beginning(name, TEMPLATE_BYTES_MAX, settings.secret_files)
            except Refused as refused:
                yield TemplateFile(source="workspace", file=name, fault=refused.problems[0].detail)
                continue
            fault = "is too large for a template" if size > TEMPLATE_BYTES_MAX else None
            yield TemplateFile(source="workspace", file=name, data=data, fault=fault)

    def _unknown(self, name: str) -> Refused:
        known = list(dict.fromkeys(one for one, _ in self._files()))
        hints = closest(name, known) or (
            (f"There are: {', '.join(f'`{one}`' for one in known[:20])}.",) if known else ()
        )
        shown = name if _NAME.fullmatch(name) else ascii(name[:64])
        detail = f"There is no template `{shown}`."
        return refuse("E_TEMPLATE_UNKNOWN", detail, *hints, command="ordain new")


def _name_of(file: str) -> str | None:
    """What a template is called: its file's name without the ending; None where that is no name."""
    name = PurePosixPath(file).name
    ending = next((one for one in TEMPLATE_ENDINGS if name.endswith(one)), "")
    stem = name.removesuffix(ending).removesuffix(".plan")
    return stem if _NAME.fullmatch(stem) else None


def _called(file: TemplateFile) -> str:
    return file.file if file.source != "built-in" else f"built-in {PurePosixPath(file.file).name}"


def _readable(file: TemplateFile) -> Document:
    if file.fault is not None:
        raise refuse("E_TEMPLATE", f"{_called(file)}: {file.fault}.")
    document = read(file.data, _called(file))
    if document.plan is None:
        raise Refused(document.problems)
    return document


def _line(name: str, file: TemplateFile, *, hidden: bool) -> TemplateLine:
    line = TemplateLine(name=name, source=file.source, file=file.file, hidden=hidden)
    try:
        document = _readable(file)
    except Refused as refused:
        return replace(line, problems=refused.problems)
    plan = document.plan
    assert plan is not None
    return replace(
        line,
        title=plan.title,
        about=next((_paragraph(text) for heading, text in document.notes if not heading and _paragraph(text)), None),
        parameters=template_parameters(plan.params, frozenset(wanted(plan))),
    )


def _paragraph(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())


def _of_template(problem: Problem, document: Document, file: TemplateFile) -> Problem:
    """A problem of a step stands in the template; one of a value does not."""
    if problem.where is None or problem.where.step is None:
        return problem
    return next(placed([problem], document, _called(file)))


def _record(record: Mapping[str, Mapping[str, Any]], steps: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """What a template says beside its plan and those of its steps that are still there."""
    there = {"", *steps}
    kept = {owner: said for owner, said in record.items() if owner.partition("/")[0] in there}
    return {
        owner: {name: value for name, value in said.items() if name not in _UNKNOWN_TO_OTHERS}
        for owner, said in kept.items()
    }
