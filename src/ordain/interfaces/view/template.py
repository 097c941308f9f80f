"""Templates as lines for people."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ordain.core.report.template import TemplateLine, TemplateList, TemplateParameter
from ordain.interfaces.view.style import Style
from ordain.interfaces.view.text import visible


def template_lines(found: TemplateList, style: Style) -> Iterator[str]:
    """Every template with what it makes and the values it takes, those first that it wants."""
    for line in found.templates:
        title = line.about or line.title
        yield f"{style.bold(visible(line.name))}  {style.dim(_where(line))}"
        if title is not None:
            yield f"  {visible(title)}"
        if line.problems:
            first = line.problems[0]
            yield f"  {style.warn('cannot be used')}: {first.code}: {visible(first.detail)}"
        for parameter in line.parameters:
            yield f"  {visible(_parameter(parameter))}"
    yield ""
    yield "Make a document of one: ordain new NAME --param KEY=VALUE -o FILE"


def _where(line: TemplateLine) -> str:
    where = line.source if line.source == "built-in" else visible(line.file)
    return f"{where}; hidden by the one above of the same name" if line.hidden else where


def _parameter(one: TemplateParameter) -> str:
    said = [] if one.type == "string" else [one.type]
    if one.wanted:
        said.append("wanted")
    elif one.default is not None:
        said.append(f"default {json.dumps(one.default, ensure_ascii=False)}")
    elif one.files is not None:
        said.append(f"default: the files that match {one.files}")
    kind = f" ({', '.join(said)})" if said else ""
    about = f": {one.description}" if one.description else ""
    return f"--param {one.name}={kind}{about}"
