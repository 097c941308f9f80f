"""Templates that are not the workspace's: the user's own, and those that come with Ordain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ordain.adapters.state.user_rules import user_file
from ordain.adapters.workspace.locate import read_regular
from ordain.adapters.workspace.openat import reason
from ordain.ports.workspace import TEMPLATE_BYTES_MAX, TEMPLATE_ENDINGS, TemplateFile

_FILES_MAX = 200


def shelved_templates(env: Mapping[str, str]) -> tuple[TemplateFile, ...]:
    """The user's templates, then ours, each by its name."""
    return (*_of_user(env), *_built_in())


def _of_user(env: Mapping[str, str]) -> Iterator[TemplateFile]:
    beside = user_file(env)
    try:
        found = sorted(beside.with_name("templates").iterdir()) if beside is not None else []
    except OSError:
        return
    for path in [path for path in found if path.name.endswith(TEMPLATE_ENDINGS)][:_FILES_MAX]:
        try:
            data = read_regular(path, TEMPLATE_BYTES_MAX)
        except OSError as error:
            yield TemplateFile(source="user", file=str(path), fault=f"cannot be read: {reason(error)}")
            continue
        fault = "is too large for a template" if len(data) > TEMPLATE_BYTES_MAX else None
        yield TemplateFile(source="user", file=str(path), data=data, fault=fault)


def _built_in() -> Iterator[TemplateFile]:
    from importlib.resources import files  # few commands look at templates

    shelf = files("ordain").joinpath("data", "templates")
    for one in sorted(shelf.iterdir(), key=lambda one: one.name):
        if one.name.endswith(TEMPLATE_ENDINGS):
            yield TemplateFile(source="built-in", file=one.name, data=one.read_bytes())
