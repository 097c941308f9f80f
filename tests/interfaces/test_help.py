"""Help texts say what to do: each begins with the verb that the list of commands has, in the imperative."""

from collections.abc import Iterator

import click

from tests.words import main

NO_VERBS = {
    "a",
    "an",
    "the",
    "what",
    "who",
    "how",
    "everything",
    "all",
    "keys",
    "notes",
    "have",
    "let",
    "go",
    "whether",
}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join([*path, name]), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def test_every_help_begins_with_the_verb_of_its_line() -> None:
    wrong = []
    for name, command in commands(main):
        words = (command.help or "").split()
        listed = main.table[name][1].split() if " " not in name else words
        first = words[0].rstrip(":,") if words else ""
        if first.lower() in NO_VERBS or not first[:1].isupper() or first.endswith("s"):
            wrong.append(f"ordain {name} --help begins with `{first}`, which is no imperative")
        if listed[:1] != words[:1] and first != listed[0].rstrip(":,"):
            wrong.append(f"ordain {name}: the list says `{listed[0]}`, its help `{first}`")
    assert wrong == []
