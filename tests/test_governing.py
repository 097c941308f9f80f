"""Which workspace a directory belongs to, and who rules it."""

import asyncio
from pathlib import Path

import pytest

from ordain import Channel, Plan, Principal, Refused
from tests.words import open_at_terminal

KIM = Principal(name="kim", channel=Channel.TERMINAL)
LOOK = Plan.build("Look").step("look", tool="list_files").done()


def trusted(root: Path) -> None:
    (root / "ordain.toml").write_text('[policy]\ndeny = ["reads"]\n')

    async def trust() -> None:
        app = open_at_terminal(root, exact=True)
        await app.approvals.trust(app.approvals.configuration()[1], KIM)
        await app.close()

    asyncio.run(trust())


@pytest.mark.parametrize("marker", [".git", ".ordain", "ordain.toml"])
def test_a_planted_marker_does_not_escape_a_trusted_policy(tmp_path, marker):
    root, inner = tmp_path / "ws", tmp_path / "ws/sub/deep"
    inner.mkdir(parents=True)
    trusted(root)
    (root / "sub" / marker).mkdir() if marker != "ordain.toml" else (root / "sub" / marker).write_text("")
    app = open_at_terminal(inner)
    assert app.workspace.workspace_path == str(root.resolve())
    with pytest.raises(Refused) as refused:
        asyncio.run(app.plans.prepare_plan(LOOK, KIM))
    assert refused.value.problems[0].code == "E_POLICY_DENIED"


def test_without_a_trusted_configuration_above_the_nearest_marker_counts(tmp_path):
    inner = tmp_path / "ws/sub"
    inner.mkdir(parents=True)
    (tmp_path / "ws/.git").mkdir()
    (inner / ".git").mkdir()
    assert open_at_terminal(inner).workspace.workspace_path == str(inner.resolve())


def test_the_file_deleted_or_changed_loosens_nothing(tmp_path):
    root = tmp_path / "ws"
    root.mkdir()
    trusted(root)
    for change in (lambda: (root / "ordain.toml").write_text(""), lambda: (root / "ordain.toml").unlink()):
        change()
        with pytest.raises(Refused) as refused:
            asyncio.run(open_at_terminal(root, exact=True).plans.prepare_plan(LOOK, KIM))
        assert refused.value.problems[0].code == "E_POLICY_DENIED"
