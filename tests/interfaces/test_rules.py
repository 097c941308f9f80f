"""Rules of calls as a person meets them: tried on their examples before a configuration can be trusted."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.scenario import KIM
from tests.words import Refused, open_at_terminal

SERVER = Path(__file__).parents[1] / "tool_server.py"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace, and beside it, where servers may write, a file that tells how often one was started."""
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def started(workspace: Path) -> Path:
    return workspace.parent / "started"


def tools(workspace: Path, trust_annotations: bool = True) -> str:
    command = ["sh", "-c", f"echo x >> {started(workspace)}; exec {sys.executable} {SERVER} good"]
    flag = "true" if trust_annotations else "false"
    return f"[tools.talk]\nmcp = {json.dumps(command)}\ntrust_annotations = {flag}\n"


def rule(example: str) -> str:
    return f"[guard]\nopen = ['rule:read']\n[rules.read]\ntools = ['reads']\nmatches = ['''{example}''']\n"


def test_servers_that_are_trusted_are_asked_about_examples_and_no_others(workspace: Path) -> None:
    app, file = open_at_terminal(workspace, exact=True), workspace / "ordain.toml"

    def refused(text: str) -> list[str]:
        file.write_text(text)
        with pytest.raises(Refused) as caught:
            app.approvals.configuration()
        return [problem.detail for problem in caught.value.problems]

    # Nobody trusted it: nothing is started, and what is not known of its tools does not let them through.
    not_known = (
        'rules.read.matches: `talk:echo {"text": "a"}` must be let through, and is not (guard.open names the rule).'
    )
    assert refused(tools(workspace) + rule('talk:echo {"text": "a"}')) == [not_known]
    assert not started(workspace).exists()
    file.write_text(tools(workspace))
    asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM))
    assert not started(workspace).exists()
    # Trusted as it stands, it is asked: it says that `echo` reads, and what it takes.
    file.write_text(tools(workspace) + rule('talk:echo {"text": "a"}'))
    app.approvals.configuration()
    assert started(workspace).read_text() == "x\n"
    assert refused(tools(workspace) + rule('talk:echo {"txt": "a"}')) == [
        'rules.read.matches: `talk:echo {"txt": "a"}` cannot be called: `talk:echo` needs the argument `text`.'
    ]
    # What it says of itself is believed only where the configuration that is tried says so.
    assert refused(tools(workspace, trust_annotations=False) + rule('talk:echo {"text": "a"}')) == [not_known]
    # Another section of that name is another server.
    assert refused(tools(workspace) + "env = ['KEY']\n" + rule('talk:echo {"text": "a"}')) == [not_known]
    assert started(workspace).read_text() == "x\n"


def test_what_a_trusted_server_does_not_have_can_be_named_by_no_list(workspace: Path) -> None:
    app, file = open_at_terminal(workspace, exact=True), workspace / "ordain.toml"
    wrong = (
        "[policy]\ndeny = ['talk:ecko', 'rule:loud']\n[guard]\nguarded = ['talk:tel']\n"
        "[rules.loud]\ntools = ['talk:echo']\nwhere = { txt = '*!' }\n"
    )
    effects = "effects = { fial = 'reads' }\n"
    file.write_text(tools(workspace) + effects + wrong)
    app.approvals.configuration()  # nobody trusted the server, so nobody can tell
    file.write_text(tools(workspace))
    asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM))
    file.write_text(tools(workspace) + effects + wrong)
    with pytest.raises(Refused) as caught:
        app.approvals.configuration()
    assert [(problem.detail, problem.hints) for problem in caught.value.problems] == [
        ("policy.deny names `talk:ecko`, and `talk` has no operation `ecko`.", ("Did you mean `echo`?",)),
        ("guard.guarded names `talk:tel`, and `talk` has no operation `tel`.", ("Did you mean `tell`?",)),
        ("tools.talk.effects names `fial`, and `talk` has no operation `fial`.", ("Did you mean `fail`?",)),
        ("rules.loud.where names `txt`, and `talk:echo` takes no such argument.", ("Did you mean `text`?",)),
    ]


def test_nobody_waits_twice_for_a_server_that_does_not_answer(workspace: Path) -> None:
    app, file = open_at_terminal(workspace, exact=True), workspace / "ordain.toml"
    ends = f"[tools.talk]\nmcp = ['sh', '-c', 'echo x >> {started(workspace)}']\n"
    file.write_text(ends)
    asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM))
    file.write_text(ends + "effects = { echo = 'reads' }\n")
    asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM))
    assert started(workspace).read_text() == "x\n"
