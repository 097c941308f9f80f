"""The definitions of the file tools that are built in; `adapters.file_tools` carries them out."""

from __future__ import annotations

import msgspec

from ordain.core.tool import EffectClass, Parameter, ToolDefinition

__all__ = ["DEFINITIONS"]

_PATH = Parameter(name="path", kind="string", required=True, path=True, description="Relative to the workspace.")

DEFINITIONS = {
    tool.name: tool
    for tool in (
        ToolDefinition(
            name="read_file",
            description="Read a UTF-8 text file.",
            effect=EffectClass.READS,
            parameters=(_PATH,),
        ),
        ToolDefinition(
            name="list_files",
            description="List the entries of a directory, sorted; directories end with a slash.",
            effect=EffectClass.READS,
            parameters=(Parameter(name="path", kind="string", path=True, description="Default: the workspace."),),
        ),
        ToolDefinition(
            name="write_file",
            description="Write a whole file, replacing what was there.",
            effect=EffectClass.REPEATABLE,
            parameters=(_PATH, Parameter(name="content", kind="string", required=True)),
            atomic=True,
        ),
        ToolDefinition(
            name="make_dir",
            description="Make a directory and its parents; fine if it is there.",
            effect=EffectClass.REPEATABLE,
            parameters=(_PATH,),
        ),
        ToolDefinition(
            name="edit_file",
            description="Replace one text, which must occur exactly once in the file, by another.",
            effect=EffectClass.CHECKABLE,
            parameters=(
                _PATH,
                Parameter(name="old", kind="string", required=True),
                Parameter(name="new", kind="string", required=True),
            ),
            atomic=True,
        ),
        ToolDefinition(
            name="move",
            description="Give a file, directory or link another path, in one step and without overwriting.",
            effect=EffectClass.CHECKABLE,
            parameters=(
                msgspec.structs.replace(_PATH, deep=True),
                Parameter(
                    name="to",
                    kind="string",
                    required=True,
                    path=True,
                    deep=True,
                    description="The new path itself, not a directory to move into.",
                ),
                Parameter(name="overwrite", kind="boolean", description="Replace a file or empty directory there."),
            ),
            atomic=True,
        ),
        ToolDefinition(
            name="delete",
            description="Delete a file, a link (never what it points to) or an empty directory.",
            effect=EffectClass.CHECKABLE,
            parameters=(
                msgspec.structs.replace(_PATH, deep=True),
                Parameter(name="recursive", kind="boolean", description="A directory with everything in it, too."),
            ),
            atomic=True,
            destructive=True,
        ),
    )
}
