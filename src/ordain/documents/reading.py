"""From the bytes of a document to a plan or problems: the one door into this package. The notation is told by the
document's shape, never by the name of its file. Never raises for anything that a document can hold."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ordain.core.plan.model import Plan
from ordain.documents.dialects.reader import TOP_KEYS, front_matter_dialect, tree_dialect, with_claims
from ordain.documents.document import Document, Notation, ReadValue, decode
from ordain.documents.include import Fetch, Includes, in_file
from ordain.documents.json import read_json
from ordain.documents.markdown.reader import read_markdown
from ordain.documents.shape import RECORD_FIELDS
from ordain.documents.tree import TREE_DEPTH_MAX, read_tree
from ordain.documents.yaml import read_yaml, yaml_comments

_JSON = re.compile(r'\s*(?:\{|\[\s*(?:[\[\]{"]|\Z))')
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:.*\n)*?---[ \t]*(?:\n|\Z)")
_IGNORED = re.compile(r"(?:[ \t]*(?:#.*)?\n|---[ \t]*\n)*")
_KEY = re.compile(r"""(["']?)([A-Za-z_]+)\1[ \t]*:(?=[ \t\n]|\Z)""")
_STEPS = re.compile(r"""^(["']?)steps\1[ \t]*:[ \t]*(?:[\[#].*)?$""", re.MULTILINE)
_PLAN_KEYS = frozenset((*Plan.__struct_fields__, *RECORD_FIELDS)) | TOP_KEYS


def read(data: bytes, file: str | None = None, fetch: Fetch | None = None) -> Document:
    """The document in these bytes; `file` is named by its problems and places, `fetch` gives what it includes."""
    includes = Includes(fetch, _read)
    document = _read(data, includes)
    if includes.found:
        document = msgspec.structs.replace(document, included=tuple(includes.found))
    return document if file is None else in_file(document, file)


def _read(data: bytes, includes: Includes) -> Document:
    text = decode(data)
    return Document(problems=text) if not isinstance(text, str) else _READERS[notation_of(text)](text, includes)


def notation_of(text: str) -> Notation:
    """The notation in which a document is written. A YAML document starts, comments aside, with a key of a plan; where
    it starts with a comment or with `---`, as Markdown does too, it has `steps:` as well."""
    if _JSON.match(text):
        return "json"
    ignored = _IGNORED.match(text)
    start = ignored.end() if ignored else 0
    key = _KEY.match(text, start)
    if key is None or _FRONT_MATTER.match(text):
        return "markdown"
    if _STEPS.search(text, start) or (key[2] in _PLAN_KEYS and not text[:start].strip()):
        return "yaml"
    return "markdown"


def _yaml(text: str, includes: Includes) -> Document:
    document = _tree(read_yaml(text, depth_max=TREE_DEPTH_MAX), "yaml", includes)
    comments = yaml_comments(text) if document.plan is not None else ()
    if not comments:
        return document
    return msgspec.structs.replace(document, notes=(("", "\n".join(comments)), *document.notes))


def _tree(read: ReadValue, notation: Notation, includes: Includes) -> Document:
    dialect = None if read.problems else tree_dialect(read.value)
    return read_tree(read, notation, includes) if dialect is None else _seeds().TREE_READERS[dialect](read, notation)


def _markdown(text: str, includes: Includes) -> Document:
    seed = front_matter_dialect(text)
    return with_claims(_seeds().read_s3(text) if seed else read_markdown(text, includes), text)


def _seeds() -> Any:
    from ordain.documents.dialects import seeds  # loaded when a dialect comes, which is seldom

    return seeds


_READERS = {
    "json": lambda text, includes: _tree(read_json(text, depth_max=TREE_DEPTH_MAX), "json", includes),
    "yaml": _yaml,
    "markdown": _markdown,
}
