"""The session of docs/replanning.md is typed and compared: at a terminal where it is a person's, else without one."""

import re
from pathlib import Path

from tests.interfaces.typed_session import sessions, typed
from tests.interfaces.workspace import Workspace

PAGE = (Path(__file__).parents[2] / "docs/replanning.md").read_text()
DOCUMENT = re.findall(r"^````markdown\n(.*?)^````$", PAGE, re.DOTALL | re.MULTILINE)[0]


def test_a_run_goes_on_by_hand_as_the_page_tells(workspace: Workspace) -> None:
    workspace.write("release.plan.md", DOCUMENT)
    known: dict[str, str] = {}
    by_hand = PAGE.partition("\n## A session\n")[2].partition("\n## By hand\n")[0]
    for session in sessions(by_hand):
        typed(session, workspace.path, known)
    assert (workspace.path / "published.txt").read_text() == "1.4\nFaster than ever.\n"
