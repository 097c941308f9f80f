"""The rows of the corpus that concern Markdown documents: input to exact code. Grow it; never shrink it."""

from __future__ import annotations

import pytest

from ordain.core.plan.canonical import plan_id
from ordain.core.plan.model import Plan
from ordain.core.text.limit import DOCUMENT_BYTES_MAX
from ordain.documents.document import Document
from ordain.documents.markdown.table import PLAN_FIELDS, STEP_FIELDS
from ordain.documents.reading import read
from tests.rows import each


def steps(body: str) -> str:
    return f"# T\n\n## Steps\n\n{body}\n"


def step(body: str) -> str:
    return steps(f"### 1. One\n\n{body}")


def front(body: str) -> str:
    return f"---\n{body}\n---\n# T\n\n1. `true`\n"


def args(body: str, language: str = "yaml") -> str:
    return step(f"**tool:** write_file\n**args:**\n```{language}\n{body}\n```")


def codes(document: Document) -> list[str]:
    return [problem.code for problem in document.problems]


def read_text(text: str) -> Document:
    return read(text.encode("utf-8", "surrogatepass"))


REFUSED = [
    # Reading
    ("", "E_DOC_EMPTY"),
    (" \n\t\n", "E_DOC_EMPTY"),
    ("# T\n" + "x" * DOCUMENT_BYTES_MAX, "E_DOC_TOO_LARGE"),
    ("# T\n\n1. `echo \x1b[2J`\n", "E_DOC_CONTROL_CHARACTER"),
    ("# T\n\n1. `echo a\rb`\n", "E_DOC_CONTROL_CHARACTER"),
    ("# T\n\n1. `echo \x9b`\n", "E_DOC_CONTROL_CHARACTER"),
    ("# T\n\n1. `echo \ud800`\n", "E_DOC_CONTROL_CHARACTER"),
    (args('a: "\\ud800"'), "E_DOC_CONTROL_CHARACTER"),
    (args('{"a": "\\ud800"}', "json"), "E_DOC_CONTROL_CHARACTER"),
    (args('a: "\\e[2J"'), "E_DOC_CONTROL_CHARACTER"),
    ("# T\u202e\n\n1. `a`\n", "E_DOC_BIDI"),
    (step("**run:** a \u2067"), "E_DOC_BIDI"),
    (args('a: "\\u2066"'), "E_DOC_BIDI"),
    (step("**tool:** оdoo_read"), "E_NAME"),
    (step("**id:** оne\n**run:** a"), "E_NAME"),
    (step("**run:** a\n**needs:** оne"), "E_NAME"),
    (front("tools: [оdoo_read]"), "E_NAME"),
    (front("tools: ['a b']"), "E_NAME"),
    (args("[" * 100_000), "E_DOC_DEPTH"),
    (args("a: " + "[" * 16 + "]" * 16), "E_DOC_DEPTH"),
    (args("[" * 100_000, "json"), "E_DOC_DEPTH"),
    (front("metadata: " + "[" * 17 + "]" * 17), "E_DOC_DEPTH"),
    (front("record: {'true': {metadata: " + "[" * 17 + "]" * 17 + "}}"), "E_DOC_DEPTH"),
    (front("tier: 1\ntier: 2"), "E_DOC_DUPLICATE"),
    (front("tools: [a, a]"), "E_DOC_DUPLICATE"),
    (args("a: b\na: c"), "E_DOC_DUPLICATE"),
    (args('{"a": "b", "a": "c"}', "json"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**run:** b"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**contract:** b\n**contract:** c"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**needs:** none\n**depends_on:** none"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**on_fail:** skip\n**on_failure:** skip"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**RUN:** b"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**contract:** b\nexit_code == 0\nexit_code == 1"), "E_DOC_DUPLICATE"),
    ("# T\n\n**Timeout:** 1m\n**timeout:** 1m\n\n1. `a`\n", "E_DOC_DUPLICATE"),
    ("---\ntier: 1\n---\n# T\n\n**Tier:** 1\n\n1. `a`\n", "E_DOC_DUPLICATE"),
    (step("**run:** a") + "\n## Steps\n\n### 1. Two\n\n**run:** b\n", "E_DOC_DUPLICATE"),
    (args("a: .nan"), "E_DOC_NUMBER"),
    (args("a: 1e999"), "E_DOC_NUMBER"),
    (args("a: " + "9" * 5000), "E_DOC_NUMBER"),
    (args("a: 9007199254740992"), "E_DOC_NUMBER"),
    (args('{"a": NaN}', "json"), "E_DOC_NUMBER"),
    (args('{"a": 1} // no', "json"), "E_DOC_SYNTAX"),
    (args('{"a": 1,}', "json"), "E_DOC_SYNTAX"),
    (args('{"a": 1} x', "json"), "E_DOC_SYNTAX"),
    (front("a: &x 1"), "E_YAML_ALIAS"),
    (args("a: *x"), "E_YAML_ALIAS"),
    (args("a: !!python/object/apply:os.system [ls]"), "E_YAML_TAG"),
    *((args(f"a: {plain}"), "E_YAML_AMBIGUOUS") for plain in ("no", "1.10", "007", "1e3", "12:30")),
    (step("**run:** a\n**contract:**\n```shell\ntrue"), "E_MD_FENCE"),
    ("# T\n\n1. `a`\n\n## Notes\n\n~~~\nopen\n```\n", "E_MD_FENCE"),
    (steps("### 1. One\n**run:** a\n\n### 3–N. More\n**run:** a"), "E_MD_HEADING"),
    (steps("### 1. One\n**run:** a\n\n### N+1. More\n**run:** a"), "E_MD_HEADING"),
    (steps("### Step one\n**run:** a"), "E_MD_HEADING"),
    (steps("### 1. One\n**run:** a\n\n### 3. Three\n**run:** a"), "E_MD_HEADING"),
    (steps("### 0. One\n**run:** a"), "E_MD_HEADING"),
    (steps("### 01. One\n**run:** a"), "E_MD_HEADING"),
    (steps("### 1.One\n**run:** a"), "E_MD_HEADING"),
    (steps("### 1.\n**run:** a"), "E_MD_HEADING"),
    (steps("### 1. One\n**run:** a\n\n# Another title"), "E_MD_HEADING"),
    ("# T\n\n1. `a`\n3. `b`\n", "E_MD_HEADING"),
    ("# T\n\n2. `a`\n", "E_MD_HEADING"),
    ("# T\n\n1. `a`\n\n### 2. Two\n", "E_MD_HEADING"),
    (step("<!-- hidden -->\n**run:** a"), "E_MD_HIDDEN"),
    (step("**run:** echo '<!--'"), "E_MD_HIDDEN"),
    (steps("### 1. One <!-- b -->\n\n**run:** a"), "E_MD_HIDDEN"),
    ("# T <!-- a -->\n\n1. `a`\n", "E_MD_HIDDEN"),
    ("# T\n\n<!--\n\n## Steps\n\n### 1. One\n\n**run:** a\n\n## Notes\n\n-->\n", "E_MD_HIDDEN"),
    ("# T\n\n## Why\n\n<script>\n\n## Steps\n\n### 1. One\n\n**run:** a\n", "E_MD_HIDDEN"),
    ("# T\n\n1. `a` <!-- b -->\n", "E_MD_HIDDEN"),
    # Structure
    (front("approved: true"), "E_PLAN_UNKNOWN_FIELD"),
    (front("plan_version: 2"), "E_PLAN_VERSION"),
    (front("plan_version: 0"), "E_PLAN_VERSION"),
    (front('plan_version: "1"'), "E_PLAN_TYPE"),
    (front("plan_version: true"), "E_PLAN_TYPE"),
    (front("plan_version: 1.5"), "E_PLAN_TYPE"),
    (front("type: recipe"), "E_PLAN_TYPE"),
    (front("tools: shell"), "E_PLAN_TYPE"),
    (front("tools: [1]"), "E_PLAN_TYPE"),
    (front("tier: high"), "E_PLAN_TYPE"),
    (front("workspace_id: 7"), "E_PLAN_TYPE"),
    (front("tier: 3"), "E_FIELD_VALUE"),
    (front("- a"), "E_DOC_SYNTAX"),
    ("---\ntype: plan\n# T\n\n1. `a`\n", "E_DOC_SYNTAX"),
    ("# T\n", "E_PLAN_NO_STEPS"),
    ("# T\n\n## Steps\n\n## Notes\n\nx\n", "E_PLAN_NO_STEPS"),
    ("# T\n\n" + "".join(f"{n}. `echo {n}`\n" for n in range(1, 20_002)), "E_PLAN_TOO_MANY_STEPS"),
    (
        steps("".join(f"### {n}. S{n}\n**run:** a\n" for n in range(1, 20_002))),
        "E_PLAN_TOO_MANY_STEPS",
    ),
    (step("**timeout:** 1m"), "E_STEP_ACTION"),
    (step("**run:** a\n**tool:** b"), "E_STEP_ACTION"),
    (step("**run:** a\n**args:**\n```yaml\na: b\n```"), "E_STEP_ACTION"),
    (step("**args:**\n```yaml\na: b\n```"), "E_STEP_ACTION"),
    (steps("### 1. A\n**run:** a\n### 2. a!\n**run:** b"), "E_STEP_ID"),
    (steps("### 1. A\n**id:** x\n**run:** a\n### 2. B\n**id:** x\n**run:** b"), "E_STEP_ID"),
    (steps("### 1. X\n**run:** a\n### 2. B\n**id:** x\n**run:** b"), "E_STEP_ID"),
    (step("**id:** none\n**run:** a"), "E_STEP_ID"),
    (step("**id:** 7\n**run:** a"), "E_STEP_ID"),
    (step(f"**id:** {'x' * 65}\n**run:** a"), "E_STEP_ID"),
    (step("**run:** a\n**needs:** a b"), "E_STEP_ID"),
    (step("**run:** a\n**needs:** 2"), "E_STEP_UNKNOWN_NEED"),
    (step("**run:** a\n**needs:** 0"), "E_STEP_UNKNOWN_NEED"),
    (step("**run:** a\n**on_fail:** retry(1000000000)"), "E_STEP_LIMIT"),
    (step("**run:** a\n**timeout:** 0s"), "E_STEP_LIMIT"),
    (step("**run:** a\n**timeout:** 25h"), "E_STEP_LIMIT"),
    (step("**run:** a\n**timeout:** soon"), "E_FIELD_VALUE"),
    ("# T\n\n**Timeout:** 2d\n\n1. `a`\n", "E_STEP_LIMIT"),
    ("# T\n\n**Concurrency:** 65\n\n1. `a`\n", "E_STEP_LIMIT"),
    ("# T\n\n**Concurrency:** 0\n\n1. `a`\n", "E_STEP_LIMIT"),
    ("# T\n\n**Concurrency:** many\n\n1. `a`\n", "E_FIELD_VALUE"),
    ("# T\n\n**Tier:** 3\n\n1. `a`\n", "E_FIELD_VALUE"),
    # References
    (step("**run:** echo ${one.output}"), "E_REF_PLACE"),
    (step("**run:** a\n**contract:** test ${one.exit_code} = 0"), "E_REF_PLACE"),
    (step("**run:** echo ${data.key}"), "E_REF_PLACE"),
    (step("**run:** echo ${params.name}"), "E_REF_PLACE"),
    (step("**tool:** ${one.output}"), "E_REF_PLACE"),
    ("# T\n\n**Context:** see ${a.output}\n\n1. `a`\n", "E_REF_PLACE"),
    # Arguments and contracts
    (args("- a"), "E_TOOL_ARGS"),
    (args(""), "E_TOOL_ARGS"),
    (args("[]", "json"), "E_TOOL_ARGS"),
    (step("**tool:** a\n**args:** {a: b}"), "E_FIELD_VALUE"),
    (args("a: b", "toml"), "E_FIELD_VALUE"),
    (step("**run:** a\n**contract:**"), "E_CONTRACT_SYNTAX"),
    (step("**run:** a\n**contract:**\n```shell\n \n```"), "E_CONTRACT_SYNTAX"),
    (step("**run:** a\n**contract:**\nexit_code == 0"), "E_CONTRACT_SYNTAX"),
    (step("**run:** a\n**contract:** exit_code == 0"), "E_CONTRACT_SYNTAX"),
    (step("**run:** a\n**contract:** b\nexit_code == -1"), "E_FIELD_VALUE"),
    (step("**run:** a\n**contract:** b\nexit_code == 256"), "E_FIELD_VALUE"),
    (step("**run:** a\n**contract:** b\nexit_code = 0"), "E_FIELD_VALUE"),
    # Beside the plan
    (front("record: [a]"), "E_PLAN_TYPE"),
    (front("record: {'true': a}"), "E_PLAN_TYPE"),
    (front("record: {'true': {title: a}}"), "E_PLAN_UNKNOWN_FIELD"),
    (front("record: {'true': {step_number: 2}}"), "E_PLAN_UNKNOWN_FIELD"),
    (front("record: {'': {steps: []}}"), "E_PLAN_UNKNOWN_FIELD"),
    (front("record: {'': {notes: a}}"), "E_PLAN_UNKNOWN_FIELD"),
    (front("record: {nobody: {tags: [a]}}"), "E_PLAN_UNKNOWN_FIELD"),
    (front("record: {true/: {tags: [a]}}"), "E_PLAN_UNKNOWN_FIELD"),
    (front("owner: a\nrecord: {'': {owner: b}}"), "E_DOC_DUPLICATE"),
    (front("record: {'': {owner: b}}\nowner: a"), "E_DOC_DUPLICATE"),
    ("---\nrecord: {'': {priority: 1}}\n---\n# T\n\n**Priority:** 2\n\n1. `a`\n", "E_DOC_DUPLICATE"),
    # The whole model
    (step("**action:** ask"), "E_FIELD_VALUE"),
    (step("**action:**\n```yaml\ntype: aks\n```"), "E_STEP_ACTION"),
    (step("**action:**\n```yaml\ntype: ask\n```"), "E_PLAN_TYPE"),
    (step("**action:**\n```yaml\n{type: ask, question: a, colour: b}\n```"), "E_PLAN_UNKNOWN_FIELD"),
    (step("**task:** a\n**action:**\n```yaml\n{type: ask, question: a}\n```"), "E_STEP_ACTION"),
    (step("**run:** a\n**agent:** b"), "E_STEP_ACTION"),
    (step("**task:** a\n**agent:** b c"), "E_NAME"),
    (step("**task:** a\n**tools:** b, b"), "E_DOC_DUPLICATE"),
    (step("**task:** a\n**tools:** b c"), "E_NAME"),
    (step("**task:** see ${one.output}"), "E_REF_PLACE"),
    (step("**task:** a\n**instructions:** see ${one.output}"), "E_REF_PLACE"),
    (step("**task:**"), "E_FIELD_VALUE"),
    (step("**task:** a\n**reads:**\n- a\nb"), "E_DOC_SYNTAX"),
    (step("**task:** a\n**criteria:**\n```yaml\n- 1\n```"), "E_PLAN_TYPE"),
    (step("**task:** a\n**reads:**\n- a\n" + "  b\n" * (1 << 19)), "E_DOC_TOO_LARGE"),
    (step("**run:** a\n**env:** A"), "E_FIELD_VALUE"),
    (step("**run:** a\n**env:**\n- A=b\n- A=c"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**env:**\n```yaml\nA: 1\n```"), "E_PLAN_TYPE"),
    (step("**run:** a\n**for_each:** list"), "E_FIELD_VALUE"),
    (step("**run:** a\n**for_each:** {in: a}"), "E_PLAN_TYPE"),
    (step("**run:** a\n**for_each:** {in: a, max: 007}"), "E_YAML_AMBIGUOUS"),
    (step("**run:** a\n**preconditions:** none"), "E_FIELD_VALUE"),
    (step("**run:** a\n**preconditions:**\n```yaml\n- {type: pane}\n```"), "E_PLAN_TYPE"),
    (step("**run:** a\n**verify:** true"), "E_FIELD_VALUE"),
    (step("**run:** a\n**verify:**\n```yaml\ntype: nothing\n```"), "E_PLAN_TYPE"),
    (step("**run:** a\n**contract:** b\n**verify:**\n```yaml\ntype: none\n```"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**contract:** b\nstdout =~ ok"), "E_FIELD_VALUE"),
    (step('**run:** a\n**contract:** b\nstdout =~ "\\u001b"'), "E_DOC_CONTROL_CHARACTER"),
    (step("**run:** a\n**proof:** green"), "E_FIELD_VALUE"),
    (step("**run:** a\n**approval:** none"), "E_FIELD_VALUE"),
    (step("**run:** a\n**budget:** much"), "E_FIELD_VALUE"),
    (step("**run:** a\n**budget:** $1, $2"), "E_DOC_DUPLICATE"),
    (step("**run:** a\n**network:** on"), "E_FIELD_VALUE"),
    (step("**run:** a\n**protect:** a,,b"), "E_FIELD_VALUE"),
    (step("**run:** a") + "\n## Fallbacks\n\n### 1. Undo\n\n**run:** b\n", "E_STEP_ID"),
    (step("**run:** a") + "\n## Fallbacks\n\n### undo\n\n**run:** b\n", "E_MD_HEADING"),
    (step("**run:** a") + "\n## Fallbacks\n\n### one. Undo\n\n**run:** b\n", "E_STEP_ID"),
    (step("**run:** a") + "\n## Fallbacks\n\n### undo. Undo\n**id:** x\n**run:** b\n", "E_DOC_DUPLICATE"),
    (step("**run:** a") + "\n## Fallbacks\n\nProse.\n", "E_DOC_SYNTAX"),
    (step("**run:** a") + "\n## fallbacks\n\n### undo. Undo\n\n**run:** b\n", "E_MD_HEADING"),
    ("# T\n\n1. `a`\n\n## Fallbacks\n\n### a. Undo\n\n**run:** b\n", "E_STEP_ID"),
    ("# T\n\n**Agent:** a b\n\n1. `a`\n", "E_NAME"),
    ("# T\n\n**Params:** a\n\n1. `a`\n", "E_FIELD_VALUE"),
    ("# T\n\n**Params:**\n```yaml\na: {type: text}\n```\n\n1. `a`\n", "E_PLAN_TYPE"),
    ("# T\n\n**Preconditions:**\n```yaml\n- {type: lock_held}\n```\n\n1. `a`\n", "E_PLAN_TYPE"),
    ("# T\n\n**Task:** see ${a.output}\n\n1. `a`\n", "E_REF_PLACE"),
    # Steps where nobody looks for them
    ("# T\n\n1. `make`\n\n## Steps\n\n### 1. One\n\n**run:** a\n", "E_DOC_SYNTAX"),
    ("# T\n\nFirst:\n\n1. [x] ``make``\n\n## Steps\n\n1. `a`\n", "E_DOC_SYNTAX"),
    ("# T\n\n1. Look\n2. Read it (odoo: read)\n\n## Steps\n\n1. `a`\n", "E_DOC_SYNTAX"),
    # What belongs nowhere
    ("1. `a`\n", "E_DOC_SYNTAX"),
    ("Title\n=====\n\n1. `a`\n", "E_DOC_SYNTAX"),
    ("hello\n\n# T\n\n1. `a`\n", "E_DOC_SYNTAX"),
    ("#\n\n1. `a`\n", "E_DOC_SYNTAX"),
    ("# T\n\n1. `a`\n   contract: b\n", "E_DOC_SYNTAX"),
    ("# T\n\n1. `a`\n\nmore\n", "E_DOC_SYNTAX"),
    (step("Some prose.\n\n**run:** a"), "E_DOC_SYNTAX"),
    (step("**run:** a\nand more"), "E_DOC_SYNTAX"),
    (step("**run:** a\n\n**Note:** more"), "E_DOC_SYNTAX"),
    (step("**run:** a\n**contract:** b\nexit_code == 0\nmore"), "E_DOC_SYNTAX"),
    (steps("Prose.\n\n### 1. One\n\n**run:** a"), "E_DOC_SYNTAX"),
    ('{"plan_version": 1}', "E_PLAN_TYPE"),
    ('{"plan_version": 1}', "E_PLAN_NO_STEPS"),
    (step("**run:**"), "E_FIELD_VALUE"),
    (step("**run:** `make`"), "E_FIELD_VALUE"),
    (step("**run:**\n```python\nprint()\n```"), "E_FIELD_VALUE"),
    (step("**run:** a\n**idempotent:** yes"), "E_FIELD_VALUE"),
    (step("**run:** a\n**needs:**"), "E_FIELD_VALUE"),
    (step("**run:** a\n**needs:** none, one"), "E_FIELD_VALUE"),
    (step("**run:** a\n**needs:** one,"), "E_FIELD_VALUE"),
    (step("**run:** a\n**on_fail:** give up"), "E_FIELD_VALUE"),
    (step("**run:** a" + "b" * (1 << 20)), "E_DOC_TOO_LARGE"),
    ("# T\n\n**Context:** " + "b" * ((1 << 20) + 1) + "\n\n1. `a`\n", "E_DOC_TOO_LARGE"),
    ("# " + "b" * ((1 << 20) + 1) + "\n\n1. `a`\n", "E_DOC_TOO_LARGE"),
    ("# T\n\n### 1. One\n\n**run:** a\n", "E_MD_HEADING"),
    ("# T\n\n## steps\n\n### 1. One\n\n**run:** a\n", "E_MD_HEADING"),
]


@each("text, code", REFUSED, ids=lambda value: value if len(value) < 40 else value[:40])
def test_refused(text: str, code: str) -> None:
    document = read_text(text)
    assert code in codes(document)
    assert document.plan is None


SETEXT = [
    step("**run:** a\n---"),
    step("**run:** a\n**contract:** b\n==="),
    "# T\n\n1. `a`\n-\n",
]


@pytest.mark.parametrize("text", SETEXT)
def test_underlined_headings_are_refused_among_steps(text: str) -> None:
    assert "E_MD_HIDDEN" in codes(read_text(text))


def test_a_byte_order_mark_and_crlf_change_nothing() -> None:
    text = "# T\n\n1. `a`\n2. `b`\n"
    plain, dressed = read_text(text), read_text("\ufeff" + text.replace("\n", "\r\n"))
    assert plain.problems == ()
    assert dressed == plain


def test_utf_16_and_bad_bytes_are_refused() -> None:
    assert codes(read("# T\n\n1. `a`\n".encode("utf-16"))) == ["E_DOC_ENCODING"]
    assert codes(read(b"# T\n\n1. `a\xff`\n")) == ["E_DOC_ENCODING"]


def plan_of(text: str) -> Plan:
    document = read_text(text)
    assert document.problems == ()
    assert document.plan is not None
    return document.plan


ACCEPTED = [
    front("metadata: " + "[" * 16 + "]" * 16),
    front("record: {'true': {metadata: " + "[" * 16 + "]" * 16 + "}}"),
    "# T\n\n**Context:**\n\n1. `make`\n\n## Steps\n\n1. `a`\n",
    "# T\n\nRun\n2. `make`\n\n## Background\n\n1. `make`\n\n## Steps\n\n1. `a`\n",
    "# ⚠️ می‌خواهم\n\n1. `a`\n",
    "# T\n\n**Context:** zero\u200bwidth \U000e0061 ✌️\n\n1. `a`\n",
    "# T |step[0]={type:run}|\n\n1. `a`\n",
    "<!-- markdownlint-disable -->\n# T\n\n1. `a`\n",
    front("owner: me\nstatus: in-progress\ntags: [a]\nmetadata: {a: [1]}\nworkspace_id: null"),
    args("a: $HOME\nb: $5.00\nc: $$\nd: ${HOME}\ne: ${x"),
    step("**run:** echo ${HOME} ${nobody.output} $${one} ${one}"),
    step("**run:** a\n**contract:**\n```shell\n### 2. Two\n<!-- x -->\n# T\n## Steps\n**run:** b\nTitle\n===\n```"),
    "# T\n\n**Context:**\nWhy.\n\n#### Details\n\n**Note:** more\n\n## Steps\n\n### 1. One\n\n**run:** a\n",
]


@each("text", ACCEPTED)
def test_accepted(text: str) -> None:
    plan_of(text)


def test_a_title_can_not_imitate_a_border() -> None:
    titles = ["T", "T|step[0]=x", 'T","steps":[]']
    assert len({plan_id(plan_of(f"# {title}\n\n1. `a`\n")) for title in titles}) == 3


def test_near_misses_of_field_names() -> None:
    document = read_text(step("**run:** a\n**contrat:** pytest"))
    # The text would be lost, so it is refused, once.
    assert codes(document) == ["E_DOC_SYNTAX"]
    assert document.problems[0].detail == "`**contrat**` is no field here."
    assert document.problems[0].hints == ("Did you mean `contract`?",)
    document = read_text("# T\n\n**Contxt:** why\n**Timeout**: 10m\n\n1. `a`\n")
    assert codes(document) == ["W_FIELD_UNKNOWN", "W_FIELD_UNKNOWN"]
    assert document.problems[1].hints == ("Write `**Timeout:**`, with the colon inside.",)
    assert document.plan is not None
    assert document.notes == (("", "**Contxt:** why\n**Timeout**: 10m"),)


STEPS_ONLY = sorted((STEP_FIELDS.names | STEP_FIELDS.aliases.keys()) - PLAN_FIELDS.names)


@pytest.mark.parametrize("spelling", ["**{}:** x", "**{}**: x", "  **{}:**"])
@pytest.mark.parametrize("name", [*STEPS_ONLY, "sandbox", "workspace_id", "plan_version"])
def test_no_field_in_the_wrong_place_is_silently_text(name: str, spelling: str) -> None:
    line = spelling.format(name.replace("_", " ").capitalize())
    for text in (f"# T\n\n{line}\n\n1. `a`\n", f"# T\n\n**Context:**\nWhy.\n\n{line}\n\n## Steps\n\n1. `a`\n"):
        (problem,) = {(one.code, one.hints) for one in read_text(text).problems}
        assert problem[0] == "W_FIELD_UNKNOWN"
        assert problem[1] == (PLAN_FIELDS.elsewhere[name],)


@pytest.mark.parametrize("name", ["Tier", "Concurrency", "Params", "Sandbox", "verification", "workspace id"])
def test_no_field_of_a_plan_becomes_part_of_a_task_silently(name: str) -> None:
    document = read_text(step(f"**task:**\nThink.\n**{name}:** 1"))
    assert codes(document) == ["W_FIELD_UNKNOWN"]


def test_tools_and_protect_of_a_plan() -> None:
    below = "# T\n\n**Tools:** read_file, shell\n**Protect:**\n- tests/**\n- a b.txt\n\n1. `true`\n"
    assert plan_of(below) == plan_of(front("tools: [read_file, shell]\nprotect: ['tests/**', a b.txt]"))
    assert plan_of("# T\n\n**Tools:** none\n\n1. `a`\n").tools == ()
    for wrong, code in {
        "**Tools:** re ad": "E_NAME",
        "**Tools:** shell, shell": "E_DOC_DUPLICATE",
        "**Tools:**": "E_FIELD_VALUE",
        "**Protect:**": "E_FIELD_VALUE",
        "**Protect:** a\n**Protect:** b": "E_DOC_DUPLICATE",
    }.items():
        assert codes(read_text(f"# T\n\n{wrong}\n\n1. `a`\n")) == [code], wrong
    for name, value in (("tools", "[shell]"), ("protect", "[a]")):
        both = f"---\n{name}: {value}\n---\n# T\n\n**{name.capitalize()}:** b\n\n1. `a`\n"
        assert codes(read_text(both)) == ["E_DOC_DUPLICATE"]


def test_a_step_says_that_nothing_verifies_it() -> None:
    in_words, in_a_fence = (
        plan_of(step(f"**run:** a\n**verify:**{one}")) for one in (" none", "\n```yaml\ntype: none\n```")
    )
    assert in_words == in_a_fence
    assert in_words.steps[0].verification is not None
