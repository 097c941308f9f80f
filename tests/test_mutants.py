"""The table of `make mutate` fits the code: every row breaks one place that is there, and names a test that is there.
Whether the tests notice is for `make mutate` to say."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("ordain_mutate", ROOT / "tools" / "mutate.py")
assert spec is not None and spec.loader is not None
mutate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutate)
MUTANTS = mutate.read_mutants()


def test_every_sabotage_fits_one_place():
    misfits = []
    for mutant in MUTANTS:
        times = (ROOT / mutant.file).read_text().count(mutant.old)
        if times != 1 or mutant.old == mutant.new:
            misfits.append(f'`old` of "{mutant.guarantee}" is {times} times in {mutant.file}')
    assert not misfits, "\n".join(["Adapt these rows of tests/mutants; `old` must be there once:", *misfits])


def test_every_named_test_is_there():
    missing = []
    for mutant in MUTANTS:
        file, _, name = mutant.test.partition("::")
        function = re.escape(re.split(r"[\[]", name.rpartition("::")[2])[0])
        if not re.search(rf"def {function}\(", (ROOT / file).read_text()):
            missing.append(mutant.test)
    assert missing == []


def test_every_guarantee_is_named_once():
    assert [words for words, times in Counter(mutant.guarantee for mutant in MUTANTS).items() if times > 1] == []
