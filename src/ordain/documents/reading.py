"""From the bytes of a document to a plan or problems: the one door into this package.

Pure: whoever calls has read the file. Never raises for anything that a document can hold.
"""

from __future__ import annotations

import msgspec

from ordain.core.problem import Place
from ordain.documents.document import Document, ProblemList
from ordain.documents.markdown import read_markdown
from ordain.documents.text import decode

__all__ = ["read"]


def read(data: bytes, file: str | None = None) -> Document:
    """The document in these bytes; `file` is the name that its problems and places carry."""
    text = decode(data)
    if not isinstance(text, str):
        document = Document(problems=text)
    elif text.lstrip().startswith("{"):
        problems = ProblemList()
        hint = "Start with `# Title`, then a numbered list of commands or `## Steps`."
        problems.add("E_DOC_NOTATION", "This looks like JSON; this version reads Markdown documents.", hint, line=1)
        document = Document(problems=problems.in_order())
    else:
        document = read_markdown(text)
    return document if file is None else _named(document, file)


def _named(document: Document, file: str) -> Document:
    problems = tuple(
        msgspec.structs.replace(problem, where=msgspec.structs.replace(problem.where or Place(), file=file))
        for problem in document.problems
    )
    places = {key: msgspec.structs.replace(place, file=file) for key, place in document.places.items()}
    return msgspec.structs.replace(document, problems=problems, places=places)
