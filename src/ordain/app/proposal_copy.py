"""Our own copies of proposals that came without a file, for people to read and edit into the next revision. Never
believed: what runs is what was prepared. A context longer than anybody reads stands in a file of its own."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from msgspec.structs import replace

from ordain.core.lineage.lineage import PlanState, Stage
from ordain.core.plan.canonical import plan_id, short_id
from ordain.core.plan.model import Plan
from ordain.core.text.problem import Problem, Refused, refuse
from ordain.documents.document import Document
from ordain.documents.markdown.writer import write_markdown
from ordain.documents.reading import read
from ordain.records.records import lineage_id
from ordain.records.surroundings import Surroundings

ARCHIVE = ".ordain/archive"
"""Where the copies of plans go that were archived."""
ARTIFACTS = ".ordain/artifacts"
"""Where parts of copies are that are too long for them."""
CONTEXT_BYTES_MAX = 50 << 10
"""A longer context stands in a file of its own."""
_ELSEWHERE = re.compile(rf"In `({re.escape(ARTIFACTS)}/PLAN-[A-Z2-7]+/context\.md)`, for its length\.")


class ProposalCopies:
    """The copies of one workspace's proposals."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here

    def path(self, stream: str) -> str:
        folder = PurePosixPath(self._here.snapshot.settings.documents)
        return str(folder / f"{lineage_id(stream)}.plan.md")

    def text(self, stream: str, path: str = "") -> bytes | None:
        """The copy, by default at its usual path, as one document, with what stands in a file of its own; None where
        there is no copy. Raises Refused where that file is gone."""
        data = self._here.ports.workspace.document(path or self.path(stream))
        if data is None or ARTIFACTS.encode() not in data:
            return data
        document = read(data, None, self._here.fetch)
        found = _ELSEWHERE.fullmatch(document.plan.context or "") if document.plan is not None else None
        if document.plan is None or found is None or found[1] != _context_path(stream):
            return data
        context = self._here.ports.workspace.document(found[1])
        if context is None:
            detail = f"The context of this plan was in {found[1]}, which cannot be read."
            hint = "Put the file back, or write the context into the copy."
            raise refuse("E_DOC_NOT_FOUND", detail, hint, command=f"ordain show {lineage_id(stream)}")
        whole = replace(document.plan, context=context.decode("utf-8", "replace"))
        return write_markdown(replace(document, plan=whole)).encode()

    def write(self, stream: str, state: PlanState) -> None:
        """Write what a person would read of a proposal that came without a file, unless somebody edited the copy."""
        if state.document is not None or (plan := self._here.records.readable_plan(stream)) is None:
            return
        here, path = self._here, self.path(stream)
        if self._is_edited(stream, state, path):
            return
        if state.stage is Stage.ARCHIVED:
            here.ports.copies.remove(path)
            path = str(PurePosixPath(ARCHIVE) / PurePosixPath(path).name)
        said = [f"{one.by.name}, about {short_id(one.plan_id)}: {one.feedback}" for one in state.rejections]
        said += [f"{step}: {text}" for one in state.rejections[-1:] for step, text in one.comments.items()]
        proposer = state.proposer
        assert proposer is not None
        record = {
            "status": str(state.status(here.now())),
            "owner": proposer.name,
            "metadata": {"lineage": lineage_id(stream), "plan_id": state.plan_id, "channel": proposer.channel.value},
        }
        notes = (("Feedback", "\n\n".join(said)),) if said else ()
        document = Document(plan=self._shortened(stream, plan), record={"": record}, notes=notes)
        here.ports.copies.put(path, write_markdown(document).encode())

    def _shortened(self, stream: str, plan: Plan) -> Plan:
        """The plan as its copy has it: a long context is in a file beside it, if that can be written."""
        context = (plan.context or "").encode()
        path = _context_path(stream)
        if len(context) <= CONTEXT_BYTES_MAX or not self._here.ports.copies.put(path, context):
            return plan
        return replace(plan, context=f"In `{path}`, for its length.")

    def drift(self, stream: str, state: PlanState) -> tuple[Problem, ...]:
        """A notice when our copy of a proposal says something else than the plan."""
        path = self.path(stream)
        if state.document is not None or not self._is_edited(stream, state, path):
            return ()
        detail = f"{path} was edited since; what runs is what was prepared."
        return (Problem(code="W_DOC_DRIFT", detail=detail, command=f"ordain revise {short_id(state.plan_id)}"),)

    def _is_edited(self, stream: str, state: PlanState, path: str) -> bool:
        try:
            data = self.text(stream, path)
        except Refused:  # nobody can tell, and an edit is not overwritten
            return True
        plan = read(data, None, self._here.fetch).plan if data is not None else None
        return data is not None and (plan is None or plan_id(plan) not in state.revisions)


def _context_path(stream: str) -> str:
    return f"{ARTIFACTS}/{lineage_id(stream)}/context.md"
