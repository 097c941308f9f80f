"""The corpus of inputs and codes, over whole documents: bytes in, through the same lint that `ordain lint` gives, in a
real workspace with a trusted configuration. One table for each group. Grow it; never shrink it.

A row is one input, in every notation where it makes sense. The codes are exact: nothing less and nothing more is told,
but for W_NOT_YET, which is about the version and not about the input, and what a fallback wants besides.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ordain import Channel, Principal, Refused
from tests.build import plan as build_plan
from tests.build import step as build_step
from tests.words import App, open_at_terminal, plan_id, read, write_json, write_markdown, write_yaml

KIM = Principal(name="kim", channel=Channel.TERMINAL)
CONFIGURATION = """\
[run]
agent = "reviewer"
[policy]
deny = ["edit_file"]
[agents.coder]
command = ["cat"]
[agents.reviewer]
human = true
[tools.odoo]
mcp = ["no-such-odoo-mcp"]
[tools.tickets]
python = "tests.tool_functions:TICKETS"
[tools.add]
python = "tests.tool_functions:add"
"""
MIB = 1 << 20


# --- Documents -----------------------------------------------------------------------------------------------------


def md(*steps: str, top: str = "", front: str = "", below: str = "") -> str:
    """A Markdown document with these steps."""
    written = "\n\n".join(f"### {n}. Step {n}\n\n{body}" for n, body in enumerate(steps, 1))
    head = f"---\n{front}\n---\n" if front else ""
    return f"{head}# T\n\n{top}\n\n## Steps\n\n{written}\n\n{below}"


def run(*fields: str) -> str:
    """The body of a Markdown step that runs a command."""
    return "\n".join(["**run:** make", *fields])


def args(body: str, language: str = "yaml", tool: str = "write_file") -> str:
    return f"**tool:** {tool}\n**args:**\n```{language}\n{body}\n```"


def think(*fields: str) -> str:
    unchecked = ["**verify:**", "```yaml", "type: none", "```"] if not any("contract:" in one for one in fields) else []
    return "\n".join(["**agent:** coder", *fields, *unchecked, "**task:**", "Think."])


MAKE = {"type": "run", "command": "make"}
BUDGET = {"budget": {"tokens": 200_000}}
TOP_BUDGET = "**Budget:** max 200k tokens"


def both(*steps: dict[str, Any], **plan: Any) -> tuple[str, str]:
    """The same plan as JSON and as YAML; a step has an id and runs something unless it says otherwise."""
    tree = [
        {key: value for key, value in {"id": f"s{n}", "action": MAKE, **step}.items() if value is not ...}
        for n, step in enumerate(steps, 1)
    ]
    whole = {"title": "T", **plan, "steps": tree}
    in_json = json.dumps(whole, ensure_ascii=False, indent=1)
    in_yaml = "".join(
        f"{key}:" + "".join(f"\n- {json.dumps(one, ensure_ascii=False)}" for one in value) + "\n"
        if key == "steps" and value
        else f"{key}: {json.dumps(value, ensure_ascii=False)}\n"
        for key, value in whole.items()
    )
    return in_json, in_yaml


def call(tool: str = "write_file", operation: str | None = None, **arguments: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    action = {"type": "tool", "tool": tool, "operation": operation, "args": arguments}
    return {"action": {key: value for key, value in action.items() if value is not None}}


def write(path: str = "a.txt", content: Any = "x", **more: Any) -> dict[str, Any]:
    return {**call(path=path, content=content), **more}


def task(**fields: Any) -> dict[str, Any]:
    unchecked = {"verification": {"strategy": {"type": "none"}}}
    return {"action": {"type": "task", "task": "Think.", "agent": "coder", **fields}, **unchecked}


def checked(command: str, **contract: Any) -> dict[str, Any]:
    return {"verification": {"strategy": {"type": "contract", "command": command, **contract}}}


class Row(NamedTuple):
    """One input. `codes` is one code, several, or None for what is accepted."""

    label: str
    codes: str | tuple[str, ...] | None
    documents: tuple[str | bytes, ...]
    hint: str | None = None


def row(label: str, codes: str | tuple[str, ...] | None, *documents: str | bytes, hint: str | None = None) -> Row:
    return Row(label, codes, documents, hint)


# --- Reading -------------------------------------------------------------------------------------------------------

SMALL = "# T\n\n1. `make`\n"
CHARACTERS = {
    "C0 control": "\x01",
    "ESC clears the screen": "\x1b[2J",
    "OSC 8": "\x1b]8;;http://x\x1b\\",
    "OSC 52": "\x1b]52;c;aGk=\x07",
    "CR overwrites": "a\rb",
    "backspaces": "ab\x08\x08",
    "8-bit CSI": "\x9b2J",
    "C1 control": "\x85",
    "NUL": "\x00",
    "DEL": "\x7f",
    "lone surrogate": "\ud800",
}
BIDI = ("\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069")


def escaped(text: str) -> tuple[str, str, str]:
    """A text that an escape sequence puts into an argument, in JSON, in YAML and in a fence."""
    inside = "".join(f"\\u{ord(character):04x}" for character in text)
    return (
        '{"title": "T", "steps": [{"action": {"type": "tool", "tool": "write_file", "args": {"path": "a", "content": "'
        + inside
        + '"}}}]}',
        f'title: T\nsteps:\n- action: {{type: tool, tool: write_file, args: {{path: a, content: "{inside}"}}}}\n',
        md(args(f'path: a\ncontent: "{inside}"')),
    )


def raw(text: str) -> tuple[bytes, bytes, bytes]:
    """A text as it is, in a title, in a command and in an argument."""
    return (
        f"# T{text}x\n\n1. `make`\n".encode("utf-8", "surrogatepass"),
        md(f"**run:** echo {text}x").encode("utf-8", "surrogatepass"),
        f'title: "T"\nsteps:\n- action: {{type: run, command: "echo {text}x"}}\n'.encode("utf-8", "surrogatepass"),
    )


def valued(value: str) -> tuple[str, str, str]:
    """A value, as it is spelt, as an argument in JSON, in a JSON fence and inside a list."""
    return (
        '{"title": "T", "steps": [{"action": {"type": "custom", "action_type": "x", "payload": ' + value + "}}]}",
        md(args(f'{{"path": "a", "content": {value}}}', "json")),
        md(args(f'{{"path": "a", "content": [1, {value}]}}', "json")),
    )


def plain(value: str) -> tuple[str, str]:
    """A plain scalar in a YAML document and in a YAML fence."""
    return (
        f"title: T\nsteps:\n- action: {{type: custom, action_type: x, payload: {value}}}\n",
        md(args(f"path: a\ncontent: {value}")),
    )


READING = [
    row("empty", "E_DOC_EMPTY", ""),
    row("white space", "E_DOC_EMPTY", " \n\t\n", "\r\n\r\n", "\u3000\n"),
    row("16 MiB + 1 byte", "E_DOC_TOO_LARGE", "# T\n" + "x" * (16 * MIB - 3), '{"title": "' + "x" * 16 * MIB),
    row("UTF-16", "E_DOC_ENCODING", SMALL.encode("utf-16"), SMALL.encode("utf-16-be"), SMALL.encode("utf-32")),
    row("invalid UTF-8", "E_DOC_ENCODING", SMALL.encode() + b"\xff", b'{"title": "\xff"}', b"title: \xc0\xaf\n"),
    row("BOM", None, b"\xef\xbb\xbf" + SMALL.encode(), *(b"\xef\xbb\xbf" + one.encode() for one in both({}))),
    *(row(label, "E_DOC_CONTROL_CHARACTER", *raw(text)) for label, text in CHARACTERS.items()),
    *(row(f"{label}, escaped", "E_DOC_CONTROL_CHARACTER", *escaped(text)) for label, text in CHARACTERS.items()),
    *(row(f"U+{ord(one):04X}", "E_DOC_BIDI", *raw(one), *escaped(one)) for one in BIDI),
    row(
        "invisible characters in prose",
        None,
        "# ⚠️ می‌خواهم\n\n1. `make`\n",
        "# T\n\n**Context:** zero\u200bwidth \U000e0061 ✌️\n\n1. `make`\n",
        *both({"description": "⚠️ می‌خواهم \u200b\U000e0061"}, context="✌️"),
    ),
    row("confusable tool", "E_NAME", md(args("path: a", tool="оdoo_read")), *both(call("оdoo_read"))),
    row(
        "confusable agent",
        "E_NAME",
        md("**agent:** cоder\n**contract:** cmp a b\n**task:**\nThink.", top=TOP_BUDGET),
        md(run(), front="agent: cоder"),
        *both(task(agent="cоder"), **BUDGET),
        *both({}, agent="cоder"),
    ),
    row(
        "confusable lock",
        "E_NAME",
        md("**action:**\n```yaml\ntype: acquire_lock\nlock_name: lоck\n```"),
        *both({"action": {"type": "acquire_lock", "lock_name": "lоck"}}),
        *both({"action": {"type": "release_lock", "lock_name": "lоck"}}),
        *both({"preconditions": [{"type": "lock_held", "lock_name": "lоck"}]}),
    ),
    row("confusable step", "E_NAME", md(run("**id:** оne")), *both({"id": "оne"})),
    row("[ × 100,000", "E_DOC_DEPTH", "[" * 100_000, md(args("[" * 100_000)), md(args("[" * 100_000, "json"))),
    row("[ × 100,000 in YAML", "E_DOC_DEPTH", "steps:\n- " + "[" * 100_000),
    row(
        "nesting 17",
        "E_DOC_DEPTH",
        *valued("[" * 17 + "]" * 17),
        *plain("[" * 17 + "]" * 17),
        SMALL.replace("# T", "---\nmetadata: " + "[" * 17 + "]" * 17 + "\n---\n# T"),
    ),
    row(
        "duplicate key",
        "E_DOC_DUPLICATE",
        '{"title": "T", "title": "U", "steps": [{"action": {"type": "run", "command": "make"}}]}',
        "title: T\ntitle: U\nsteps:\n- action: {type: run, command: make}\n",
        "title: T\nsteps:\n- action: {type: run, command: make, command: ls}\n",
        SMALL.replace("# T", "---\nowner: a\nowner: b\n---\n# T"),
        md(args("path: a\npath: b\ncontent: c")),
        md(args('{"path": "a", "content": "x", "path": "b"}', "json")),
    ),
    row(
        "field given twice",
        "E_DOC_DUPLICATE",
        md(run("**timeout:** 1m", "**timeout:** 2m")),
        md(run("**needs:** none", "**depends_on:** none")),
        md(run(), top="**Context:** a\n\n**context:** b"),
    ),
    *(
        row(f"number {value[:12]}", "E_DOC_NUMBER", *valued(value))
        for value in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "9007199254740992", "-9007199254740992")
    ),
    *(
        row(f"YAML number {value[:12]}", "E_DOC_NUMBER", *plain(value))
        for value in (".nan", ".inf", "-.inf", "1e999", "9" * 5000, "9007199254740992")
    ),
    row("trailing bytes", "E_DOC_SYNTAX", both({})[0] + "x", md(args('{"path": "a"} x', "json"))),
    row("comment in JSON", "E_DOC_SYNTAX", "{ // no\n}", "{ /* no */ }", md(args('{"path": "a"} # no', "json"))),
    row("trailing comma", "E_DOC_SYNTAX", '{"title": "T",}', '{"steps": [1,]}', md(args('{"path": "a",}', "json"))),
    row("YAML anchor", "E_YAML_ALIAS", *plain("&x [1]"), SMALL.replace("# T", "---\nmetadata: &x 1\n---\n# T")),
    row("YAML alias", "E_YAML_ALIAS", *plain("*x")),
    row(
        "billion laughs",
        "E_YAML_ALIAS",
        "title: T\nmetadata:\n  a: &a [l, o, l]\n"
        + "".join(f"  {chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9))
        + "steps:\n- action: {type: run, command: make}\n",
    ),
    row("YAML tag", "E_YAML_TAG", *plain("!!python/object/apply:os.system [ls]"), *plain("!x 1"), *plain("!!str 1")),
    *(
        row(f"plain {value}", "E_YAML_AMBIGUOUS", *plain(value), SMALL.replace("# T", f"---\nowner: {value}\n---\n# T"))
        for value in ("no", "1.10", "007", "1e3", "12:30")
    ),
    row("fence never closed", "E_MD_FENCE", md("**run:**\n```shell\nmake"), SMALL + "\n## Notes\n\n~~~\nopen\n```\n"),
    row("heading 3–N", "E_MD_HEADING", md(run()) + "### 3–N. More\n\n**run:** a\n"),
    row("heading N+1", "E_MD_HEADING", md(run()) + "### N+1. More\n\n**run:** a\n"),
    row("heading Step one", "E_MD_HEADING", "# T\n\n## Steps\n\n### Step one\n\n**run:** a\n"),
    row("numbers 1, 3", "E_MD_HEADING", md(run()) + "### 3. More\n\n**run:** a\n", "# T\n\n1. `a`\n3. `b`\n"),
    row(
        "structure inside text",
        None,
        md("**run:**\n```shell\n### 2. Two\nmake\n```"),
        md(think() + "\n\n#### Details\n\nMore.\n\n**Note:** mind the gap.\n\n```\n### 2. Two\n```", top=TOP_BUDGET),
    ),
    row("HTML comment inside Steps", "E_MD_HIDDEN", md("**run:** echo '<!-- b -->'")),
    row("HTML comment in a list", ("E_MD_HIDDEN", "W_TASK_UNVERIFIED"), "# T\n\n1. `a` <!-- b -->\n"),
    row("HTML comment beside fields", ("E_MD_HIDDEN", "E_DOC_SYNTAX"), md("<!-- hidden -->\n" + run())),
    row("setext heading inside Steps", "E_MD_HIDDEN", md(think() + "\n---", top=TOP_BUDGET)),
    row("setext heading beside fields", ("E_MD_HIDDEN", "E_DOC_SYNTAX"), md(run() + "\n---"), md(run() + "\n===")),
    row(
        "misspelt field in a task",
        "W_FIELD_UNKNOWN",
        md(think() + "\n\n**contrat:** pytest", top=TOP_BUDGET),
        hint="Did you mean `contract`?",
    ),
    row(
        "misspelt field that belongs to no text",
        "E_DOC_SYNTAX",
        md(run("**contrat:** pytest")),
        hint="Did you mean `contract`?",
    ),
    row(
        "a step's field above the steps",
        "W_FIELD_UNKNOWN",
        *(md(run(), top=f"**{name}:** x") for name in ("writes", "Network", "approval", "Contract", "verify")),
        hint="It is a field of steps: write it below the heading of each step that it is for.",
    ),
    row(
        "the sandbox asked for by another name",
        "W_FIELD_UNKNOWN",
        md(run(), top="**Sandbox:** 1"),
        hint="The sandbox is demanded of the whole plan, below its title: `**Tier:** 1`.",
    ),
    row("tools that leave a command out", "E_TOOL_OUT_OF_SCOPE", md(run(), top="**Tools:** read_file")),
    row("protected files that are not there", "W_PROTECT_NOTHING", md(run(), top="**Protect:** nowhere/**")),
    row("tools twice", "E_DOC_DUPLICATE", md(run(), top="**Tools:** shell", front="tools: [shell]")),
]


# --- Structure -----------------------------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    step: dict[str, Any] = {"action": MAKE}
    for _ in range(depth):
        step = {"action": {"type": "nested_plan", "plan": {"title": "N", "steps": [step]}}}
    return step


STRUCTURE = [
    row("unknown key at the top", "E_PLAN_UNKNOWN_FIELD", *both({}, approved=True), md(run(), front="approved: true")),
    row("unknown key in a step", "E_PLAN_UNKNOWN_FIELD", *both({"approved": True}), *both({"runs": 1})),
    row("misspelt key", "E_PLAN_UNKNOWN_FIELD", *both({"timeout_m": 1}), hint="Did you mean `timeout_ms`?"),
    row("plan_version 2", "E_PLAN_VERSION", *both({}, plan_version=2), md(run(), front="plan_version: 2")),
    row('plan_version "1"', "E_PLAN_TYPE", *both({}, plan_version="1"), md(run(), front='plan_version: "1"')),
    row("plan_version true", "E_PLAN_TYPE", *both({}, plan_version=True), md(run(), front="plan_version: true")),
    row("zero steps", "E_PLAN_NO_STEPS", *both(), "# T\n", "# T\n\n## Steps\n\n## Notes\n\nx\n", '{"title": "T"}'),
    row(
        "20,001 steps",
        "E_PLAN_TOO_MANY_STEPS",
        "# T\n\n" + "".join(f"{n}. `make {n}`\n" for n in range(1, 20_002)),
        both(*({"needs": []} for _ in range(20_001)))[0],
    ),
    row(
        "more than 200 steps",
        "W_PLAN_LARGE",
        "# T\n\n" + "".join(f"{n}. `make {n}`\n" for n in range(1, 202)),
        *both(*({} for _ in range(201))),
    ),
    row("a title of 201 characters", "W_PLAN_LARGE", f"# {'T' * 201}\n\n1. `make`\n"),
    row("200 steps", None, "# T\n\n" + "".join(f"{n}. `make {n}`\n" for n in range(1, 201))),
    row("no action", "E_STEP_ACTION", md("**timeout:** 1m"), *both({"action": ...}), *both({"action": {}})),
    row("two actions", "E_STEP_ACTION", md("**run:** a\n**tool:** b"), md("**run:** a\n**task:**\nThink.")),
    row("unknown action", "E_STEP_ACTION", *both({"action": {"type": "ran"}}), hint="Did you mean `run`?"),
    row(
        "duplicate step id",
        "E_STEP_ID",
        md(run("**id:** x"), run("**id:** x")),
        *both({"id": "x"}, {"id": "x"}),
        md(run("**id:** x", "**on_fail:** fallback(x)"), below="## Fallbacks\n\n### x. Undo\n\n**run:** undo\n"),
    ),
    row(
        "two equal slugs",
        "E_STEP_ID",
        "# T\n\n## Steps\n\n### 1. Go on\n\n**run:** a\n\n### 2. Go on!\n\n**run:** b\n",
        *both({"id": ..., "description": "Go on"}, {"id": ..., "description": "Go on!"}),
    ),
    *(
        row(f"id {name[:8]}", "E_STEP_ID", md(run(f"**id:** {name}")), *both({"id": name}))
        for name in ("none", "7", "-7", "x" * 65, "a b", "a.b")
    ),
    row("need of itself", "E_STEP_CYCLE", md(run("**id:** a", "**needs:** a")), *both({"id": "a", "needs": ["a"]})),
    row(
        "a cycle",
        "E_STEP_CYCLE",
        md(run("**id:** a", "**needs:** c"), run("**id:** b", "**needs:** a"), run("**id:** c", "**needs:** b")),
        *both({"id": "a", "needs": ["c"]}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}),
        hint="Take `c` out of the `needs` of `a`: `a` is before it.",
    ),
    row(
        "unknown need",
        "E_STEP_UNKNOWN_NEED",
        md(run("**id:** settings"), run("**needs:** setings")),
        *both({"id": "settings"}, {"needs": ["setings"]}),
        hint="Did you mean `settings`?",
    ),
    row("need of a number that is none", "E_STEP_UNKNOWN_NEED", md(run("**needs:** 9")), *both({"needs": [9]})),
    row("a plan 3 deep", None, *both(nested(3))),
    row(
        "a plan 4 deep",
        "E_PLAN_NESTING",
        *both(nested(4)),
        md("**action:**\n```json\n" + json.dumps(nested(4)["action"]) + "\n```"),
    ),
    row(
        "retry 10^9",
        "E_STEP_LIMIT",
        md(run("**on_fail:** retry(1000000000)")),
        md(run(), top="**On failure:** retry(1000000000)"),
        *both({"on_failure": {"strategy": "retry", "max_attempts": 10**9}}),
        *both({}, on_failure={"strategy": "retry", "max_attempts": 10**9}),
    ),
    row("timeout 0", "E_STEP_LIMIT", md(run("**timeout:** 0s")), *both({"timeout_ms": 0}), *both({}, timeout_ms=0)),
    row(
        "timeout over a day",
        "E_STEP_LIMIT",
        md(run("**timeout:** 25h")),
        md(run(), top="**Timeout:** 2d"),
        *both({"timeout_ms": 86_400_001}),
    ),
    row("timeout of a day", None, md(run("**timeout:** 1d")), *both({"timeout_ms": 86_400_000})),
    row(
        "one foreign step id of two steps",
        ("E_STEP_ID", "W_FOREIGN_ID"),
        *both(*({"step_id": "step:0123abcd"} for _ in range(2))),
        hint="Take the `step_id` away",
    ),
    row("foreign step id", "W_FOREIGN_ID", *both({"step_id": "step:0123abcd"})),
    row("foreign plan id", "W_FOREIGN_ID", *both({}, plan_id="plan:0123abcd")),
    row(
        "title that imitates a border", None, md(run()).replace("# T", "# T|step[0]=x"), *both({}, title="T|step[0]=x")
    ),
]


# --- References and expressions ------------------------------------------------------------------------------------


def content(text: str) -> tuple[str, ...]:
    """A text as an argument of the step `b` beside a step `a`, in the three notations."""
    return (
        *both({"id": "a"}, {"id": "b", "needs": [], **write(content=text)}),
        md(run("**id:** a"), args(f"path: a.txt\ncontent: {json.dumps(text)}") + "\n**id:** b\n**needs:** none"),
    )


def when(expression: str) -> tuple[str, ...]:
    return (
        *both({"id": "a"}, {"id": "b", "when": expression}),
        md(run("**id:** a"), run("**id:** b", f"**when:** {expression}")),
    )


TEN = "[1,2,3,4,5,6,7,8,9,10]"
MILLION = "".join(f"{TEN}.all({name}, " for name in "abcdef") + "true" + ")" * 6
REFERENCES = [
    *(row(text, None, *content(text)) for text in ("$HOME", "$5.00", "$$", "${HOME}", "${x", "$${a.output}")),
    row("${nobody.output}", "E_REF", *content("${nobody.output}")),
    row(
        "${setings.output}",
        "E_REF",
        *both({"id": "settings"}, write(content="${setings.output}")),
        md(run("**id:** settings"), args('path: a\ncontent: "${setings.output}"')),
        hint="Did you mean `settings`?",
    ),
    row("unclosed", "E_REF", *content("${a.output")),
    row("misspelt part", "E_REF", *content("${a.outptu}"), hint="Did you mean `output`?"),
    row("unknown parameter", "E_REF", *content("${params.x}")),
    row("unknown data", "E_REF", *content("${data.x}")),
    row("item without for_each", "E_REF", *content("${item}")),
    row(
        "a step that cannot become an ancestor",
        "E_REF",
        *both({"id": "b", **write(content="${c.output}")}, {"id": "c", "needs": ["b"]}),
        md(args('path: a\ncontent: "${c.output}"') + "\n**id:** b", run("**id:** c", "**needs:** b")),
        *content("${b.output}"),
    ),
    row("a step that is not an ancestor and can become one", None, *content("${a.output}")),
    row(
        "in a tool name",
        "E_REF_PLACE",
        *both({"id": "a"}, call("${a.output}")),
        md(run("**id:** a"), args("path: a", tool="${a.output}")),
    ),
    row(
        "in a program name",
        "E_REF_PLACE",
        *both({"id": "a"}, {"action": {"type": "run", "command": "${a.output} --version"}}),
        md(run("**id:** a"), "**run:** ${a.output} --version"),
    ),
    row(
        "in command text",
        "E_REF_PLACE",
        *both({"id": "a"}, {"action": {"type": "run", "command": "echo ${a.output}"}}),
        md(run("**id:** a"), "**run:** echo ${a.output}"),
        md(run("**id:** a"), "**run:** echo ${data.key}"),
        md(run("**id:** a"), run("**contract:** test ${a.exit_code} -eq 0")),
    ),
    row(
        "in a task",
        "E_REF_PLACE",
        *both({"id": "a"}, task(task="Look at ${a.output}."), **BUDGET),
        md(run("**id:** a"), think().replace("Think.", "Look at ${a.output}."), top=TOP_BUDGET),
        md(run("**id:** a"), top="**Context:** as ${a.output}"),
    ),
    row(
        "to a step that runs under a condition",
        "E_REF_MAY_BE_MISSING",
        *both({"id": "a", "when": "true"}, write(content="${a.output}")),
        md(run("**id:** a", "**when:** true"), args('path: a\ncontent: "${a.output}"')),
        hint='Say what is used then: `${a.output ?? "…"}`.',
    ),
    row(
        "to a step that may be skipped",
        "E_REF_MAY_BE_MISSING",
        *both({"id": "a", "on_failure": {"strategy": "skip"}}, write(content="${a.output}")),
        md(run("**id:** a", "**on_fail:** skip"), args('path: a\ncontent: "${a.output}"')),
    ),
    row(
        "to a step that may be skipped, with a default",
        None,
        *both({"id": "a", "on_failure": {"strategy": "skip"}}, write(content='${a.output ?? "x"}')),
    ),
    *(
        row(f"when {expression}", "E_EXPR", *when(expression))
        for expression in ("1 + 1", "'yes'", "data", 'steps["a"].output', "true &&", "nosuch(1)", "size(steps) == 1")
    ),
    row("when misspells a step", "E_EXPR", *when('steps["aa"].exit_code == 0')),
    row("when misspells a variable", "E_EXPR", *when('stps["a"].exit_code == 0'), hint="Did you mean `steps`?"),
    row("when misspells a field", "E_EXPR", *when('steps["a"].exti_code == 0'), hint="Did you mean `exit_code`?"),
    row("when names a parameter that is not there", "E_EXPR", *when("params.x == 1")),
    row("when loops a million times", "E_EXPR", *when(MILLION)),
    row("when makes a gigabyte", "E_EXPR", *when("['x']" + ".map(a, a + a)" * 25 + ".size() == 1")),
    row("when is too long", "E_EXPR", *when("true || " * 600 + "true")),
    row("when is nested too deep", "E_EXPR", *when("(" * 100 + "true" + ")" * 100)),
    row("a good when", None, *when('steps["a"].exit_code == 0 && steps["a"].output != ""')),
    row("pattern (a+)+$ in when", None, *when('steps["a"].output.matches("(a+)+$")')),
    row(
        "pattern (a+)+$ in a contract",
        None,
        *both(checked("cat a.txt", stdout="(a+)+$")),
        md(run("**contract:** cat a.txt", 'stdout =~ "(a+)+$"')),
    ),
]


# --- Surroundings --------------------------------------------------------------------------------------------------


def path(path: str) -> tuple[str, ...]:
    """A path that is written, in the three notations."""
    return (*both(write(path)), md(args(f"path: {json.dumps(path)}\ncontent: x")))


PROTECTED = (
    "tests/a/test_x.py",
    "TESTS/x",
    "./tests//x",
    "cafe\u0301/a.txt",
    "caf\u00e9/a.txt",
    "CAF\u00c9/A.TXT",
)
"""Files that are there and protected, in several spellings."""


def protected(path: str) -> tuple[str, ...]:
    pattern = ["tests/**", "caf\u00e9/*.txt"]
    return (
        *both(write(path), protect=pattern),
        md(args(f"path: {json.dumps(path)}\ncontent: x"), front=f"protect: {json.dumps(pattern, ensure_ascii=False)}"),
    )


def arguments(tool: str, **given: Any) -> tuple[str, ...]:
    return (*both(call(tool, **given)), md(args(json.dumps(given), "json", tool)))


def env(name: str) -> tuple[str, ...]:
    return (
        *both({"action": {**MAKE, "env": {name: "x"}}}),
        md(run("**env:**", "```yaml", f"{name}: x", "```")),
    )


SECRETS = {
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE",
    "GitHub": "ghp_" + "a1b2" * 9,
    "GitHub, fine-grained": "github_pat_" + "A1" * 20,
    "GitLab": "glpat-" + "x1" * 10,
    "a model's provider": "sk-" + "a1B2" * 12,
    "Slack": "xoxb-" + "123456789012-abc",
    "private key": "-----BEGIN RSA PRIVATE KEY-----",
    "Google": "AIza" + "x1" * 17 + "x",
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "x" * 43,
    "a variable": "registered-in-the-environment",
}

SURROUNDINGS = [
    row("unknown tool", "E_TOOL_UNKNOWN", *arguments("write_fil"), hint="Did you mean `write_file`?"),
    row("unknown tool of a source", "E_TOOL_UNKNOWN", *arguments("odo"), hint="Did you mean `odoo`?"),
    row("a tool of somewhere else", "E_TOOL_UNKNOWN", *arguments("bash_command_of_a_host"), hint="There are "),
    row(
        "unknown operation",
        "E_TOOL_OPERATION",
        *both(call("write_file", "append", path="a", content="x")),
        md(args("path: a\ncontent: x") + "\n**operation:** append"),
    ),
    row("source without operation", "E_TOOL_OPERATION", *both(call("tickets")), md("**tool:** tickets")),
    row(
        "unknown operation of a source",
        "E_TOOL_OPERATION",
        *both(call("tickets", "clos", number=1)),
        hint="Did you mean `close`?",
    ),
    row("known operation of a source", None, *both(call("tickets", "close", number=1))),
    row("source that cannot be had", "E_TOOL_SOURCE", *both(call("odoo", "search"))),
    row("argument of another type", "E_TOOL_ARGS", *both(call("tickets", "close", number="one"))),
    row("argument that is not there", "E_TOOL_ARGS", *both(call("tickets", "close"))),
    row("argument too many", "E_TOOL_ARGS", *both(call("tickets", "close", number=1, numbr=2))),
    row("argument by reference", None, *both(call("add", left=1, right=2, token="secret:TICKETS_TOKEN"))),
    row("secret that nobody may name", "E_SECRET_REFERENCE", *both(call("add", left=1, right=2, token="secret:HOME"))),
    row(
        "unknown agent",
        "E_AGENT_UNKNOWN",
        *both(task(agent="codr"), **BUDGET),
        *both(task(agent=None), agent="codr", **BUDGET),
        md(think().replace("coder", "codr"), top=TOP_BUDGET),
        hint="Did you mean `coder`?",
    ),
    row(
        "known agent",
        None,
        *both(task(), **BUDGET),
        *both(task(agent=None), agent="coder", model="large", **BUDGET),
        md(think(), top=TOP_BUDGET),
    ),
    row("agent without a task", "W_AGENT_UNUSED", *both({}, agent="coder"), *both({}, model="large")),
    row("agent of the configuration", None, *both(task(agent=None), **BUDGET)),
    row("a task that nothing verifies", "W_TASK_UNVERIFIED", f"# T\n\n{TOP_BUDGET}\n\n1. Think.\n"),
    row("operation of several words", "E_TOOL_SOURCE", *both(task(tools=["odoo:search read"]), **BUDGET)),
    row(
        "operation of several words in a list",
        ("E_TOOL_SOURCE", "W_TASK_UNVERIFIED"),
        f"# T\n\n{TOP_BUDGET}\n\n1. Look it up (odoo: search read)\n",
    ),
    row("a person's task costs nothing", None, *both(task(agent="reviewer")), *both(task(agent=None))),
    row(
        "unknown workflow",
        "E_WORKFLOW_UNKNOWN",
        *both({"action": {"type": "run_workflow", "workflow_id": "deploy"}}),
        md("**action:**\n```yaml\ntype: run_workflow\nworkflow_id: deploy\n```"),
    ),
    row(
        "wrongly typed parameter",
        "E_PARAM",
        *both({}, params={"n": {"type": "integer", "default": "7"}}),
        md(run(), front="params: {n: {type: integer, default: seven}}"),
    ),
    row("name that no parameter can have", "E_PARAM", *both({}, params={"1st": {"type": "string"}})),
    row(
        "parameter required and given",
        "E_PARAM",
        *both({}, params={"n": {"type": "string", "default": "x", "required": True}}),
    ),
    row("timeout: soon", "E_FIELD_VALUE", md(run("**timeout:** soon")), md(run(), top="**Timeout:** soon")),
    row("idempotent: yes", "E_FIELD_VALUE", md(run("**idempotent:** yes"))),
    row("on_fail: give up", "E_FIELD_VALUE", md(run("**on_fail:** give up"))),
    row("timeout_ms: soon", "E_PLAN_TYPE", *both({"timeout_ms": "soon"})),
    row("tier not available", "E_TIER", *both({}, tier=2), md(run(), front="tier: 2"), md(run(), top="**Tier:** 2")),
    row(
        "approval code in a plan",
        "W_APPROVAL_CODE",
        *both({"action": {"type": "validate_approval", "scope": {"action_kind": "run"}, "approval_code": "123456"}}),
    ),
    row(
        "missing argument",
        "E_TOOL_ARGS",
        *arguments("write_file", path="a"),
        hint="`write_file` takes `path`, `content`.",
    ),
    row(
        "extra argument",
        "E_TOOL_ARGS",
        *arguments("read_file", path="config.json", paht="b"),
        hint="Did you mean `path`?",
    ),
    row("wrongly typed argument", "E_TOOL_ARGS", *arguments("write_file", path="a", content=7)),
    row("argument that is a list", "E_TOOL_ARGS", *arguments("write_file", path="a", content=["x"])),
    row("oversized argument", "E_TOOL_ARGS", *path("x" * 300), *path("x/" * 3000 + "y")),
    row("text over 1 MiB", "E_DOC_TOO_LARGE", *arguments("write_file", path="a", content="x" * (MIB + 1))),
    *(
        row(f"path {one}", "E_PATH", *path(one))
        for one in (
            "../x",
            "a/../../x",
            "..",
            "/etc/passwd",
            "~/x",
            "../workspace-evil/x",
            ".git/hooks/x",
            ".git/hooks/pre-commit",
            ".GIT/Hooks/x",
            "sub/.git/hooks/x",
            ".git//hooks/./x",
            ".git/config",
            ".git/modules/sub/hooks/post-checkout",
            ".git/modules/sub/config",
            ".git/worktrees/a/config",
            "sub/.git",
            ".git",
            ".ordain/plans/x",
            ".ORDAIN/x",
        )
    ),
    row("invisible letter in .git", ("E_PATH", "W_CONFUSABLE"), *path(".g\u200cit/hooks/x")),
    row("NUL in a path", "E_DOC_CONTROL_CHARACTER", *both(write("a\0b"))),
    *(row(f"protected path {one!a}", "E_PATH", *protected(one)) for one in PROTECTED),
    row("new file that a tool makes beside protected ones", None, *protected("tests/new.py")),
    row("sibling of a protected path", None, *protected("tests-of-mine/x")),
    row(
        "pattern that protects nothing",
        "W_PROTECT_NOTHING",
        *both({}, protect=["tets/**"]),
        *both({"protect": [".git/**"]}),
        md(run(), front='protect: ["tests/**", "gone.txt"]'),
    ),
    row(
        "path that a parallel step protects",
        "E_WRITES_CONFLICT",
        *both({"protect": ["tests/**"], "needs": []}, write("tests/x", needs=[])),
        md(run("**protect:** tests/**"), args("path: tests/x\ncontent: x") + "\n**needs:** none"),
    ),
    row("path that a step before protects", None, *both({"protect": ["tests/**"]}, write("tests/x"))),
    row(
        "secrets of the home in reads",
        "E_PATH",
        *both(task(reads=["file:../../.ssh/id_rsa"]), **BUDGET),
        md(think("**reads:**", "- file:../../.ssh/id_rsa"), top=TOP_BUDGET),
    ),
    row(
        "file read that is not there",
        "E_READS_MISSING",
        *arguments("read_file", path="gone.txt"),
        *both(task(reads=["file:gone.txt"]), **BUDGET),
        md(think("**reads:**", "- file:gone.txt"), top=TOP_BUDGET),
    ),
    row("file read that is there", None, *arguments("read_file", path="config.json")),
    row(
        "file read that a step before writes",
        None,
        *both(write("gone.txt"), call("read_file", path="gone.txt")),
        md(args("path: gone.txt\ncontent: x"), args("path: gone.txt", tool="read_file")),
    ),
    row(
        "parallel steps that write one path",
        "E_WRITES_CONFLICT",
        *both(write(needs=[]), write("./A.TXT", needs=[])),
        md(args("path: a\ncontent: x"), args("path: a\ncontent: y") + "\n**needs:** none"),
    ),
    row("steps that write one path in turn", None, *both(write(), write())),
    row(
        "tool outside the plan's tools",
        "E_TOOL_OUT_OF_SCOPE",
        *both(write(), tools=["read_file"]),
        *both({}, tools=[]),
        md(run(), front="tools: [write_file]"),
    ),
    row(
        "budget that cannot pay",
        "W_BUDGET",
        *both(task(), budget={"tokens": 10}),
        md(think(), top="**Budget:** max 10 tokens"),
    ),
    row("no budget with agent tasks", "W_BUDGET", *both(task()), md(think())),
    *(
        row(f"env {name}", "E_ENV_NAME", *env(name))
        for name in ("LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "GIT_SSH_COMMAND")
    ),
    row("env of its own", None, *env("COLOUR")),
    *(
        row(
            f"secret of {whose}",
            "E_PLAN_SECRET",
            *content(f"token={secret}"),
            *both({"action": {"type": "run", "command": f"curl -H 'x: {secret}' example.org"}}),
            md(run(), top=f"**Context:** use {secret}"),
        )
        for whose, secret in SECRETS.items()
    ),
]


# --- Contracts -----------------------------------------------------------------------------------------------------


def by_expression(expression: str) -> dict[str, Any]:
    return {"verification": {"strategy": {"type": "custom", "name": "n", "expression": expression}}}


def contract(command: str) -> tuple[str, ...]:
    fence = f"**run:** make\n**contract:**\n```shell\n{command}\n```"
    return (*both(checked(command)), md(fence), *([md(run(f"**contract:** {command}"))] if "\n" not in command else []))


VACUOUS = [
    "true", ":", "exit 0", "sh -n x || true", "sh -n x; true", "sh -n x || :", "sh -n x || exit 0", "sh -n x\ntrue",
    "echo ok", "printf x", "test 1 = 1", "[ -n x ]", '[ -n "x" ]', "[[ 1 == 1 ]]", "sh -n x || true # ok", "true; # ok",
    "(true)", "{ true; }", "(sh -n x; true)", "if sh -n x; then true; fi", "if sh -n x; then echo a; else echo b; fi",
    "X=1", "echo $(sh -n x)", "export X=$(sh -n x)", "! false", "sh -n x &", "/bin/true", "timeout 5 true", "# later",
    "check() { sh -n x; }", "for i in a b; do echo $i; done", "set +o pipefail", "sh -n x || true #" + "x" * 4200,
    "trap 'exit 0' EXIT; sh -n x", "sh -n x & wait", "bash -c true", "sh -c ':'", "(( 1 ))", "sh -n x; eval true",
    "/usr/bin/env true", "command true", "builtin true", "\\true", "exec true",
]  # fmt: skip

CONTRACTS = [
    row("empty", "E_CONTRACT_SYNTAX", *both(checked("")), *both(checked(" ")), md(run("**contract:**"))),
    *(
        row(f"syntax error {text}", "E_CONTRACT_SYNTAX", *contract(text))
        for text in ("echo 'a", "if true; then", "fi", "sh && ", "$(", "case x in")
    ),
    row(
        "command with a syntax error",
        "E_COMMAND_SYNTAX",
        md("**run:** echo 'a"),
        *both({"action": {**MAKE, "command": "("}}),
    ),
    row(
        "two in one step",
        "E_DOC_DUPLICATE",
        md(run("**contract:** sh -n x", "**contract:** sh -n y")),
        md(run("**contract:** sh -n x", "**verify:**", "```yaml", "type: none", "```")),
    ),
    *(row(f"vacuous {text}", "E_CONTRACT_VACUOUS", *contract(text)) for text in VACUOUS),
    *(
        row(f"negated {text}", "W_CONTRACT_NEGATED", *contract(text), hint="exit_code == 1")
        for text in ("! grep -r TODO src", "test -d src && ! grep -r TODO src", "! cat log | grep ERROR")
    ),
    *(
        row(f"pipefail off {text}", "W_CONTRACT_PIPE", *contract(text), hint="out; where one command may fail")
        for text in ("set +o pipefail; cat a | sort", "set +e\nsh -n a\nsh -n b", "set +eo pipefail; sh -n a")
    ),
    *(
        row(f"existence {text}", "W_CONTRACT_EXISTENCE", *contract(text), hint="test -s FILE")
        for text in ("test -f x", "test -e x", "[ -d out ]", "[[ -e x ]]", "ls out", "test -f x && test -f y")
    ),
    *(
        row(f"sigpipe {text}", "W_CONTRACT_SIGPIPE", *contract(text), hint="grep PATTERN >/dev/null")
        for text in ("cat a | grep -q x", "cat a | grep -iq x", "cat a | head -1", "sort a | uniq | head -n 3")
    ),
    row("too long to be looked into", "W_CONTRACT_PIPE", *contract("sh -n x || true #" + "x" * 20_000)),
    row("program that is not installed", "W_CONTRACT_PROGRAM", *contract("no-such-program -q")),
    row("file that nobody makes", "W_PATH_UNKNOWN", md("**run:** cat no/such/file.txt")),
    row("program of a step that is not installed", "W_PROGRAM_MISSING", md("**run:** no-such-program -q")),
    row(
        "program that a step installs",
        None,
        md("**run:** pip install no-such-program", run("**contract:** no-such-program -q")),
        *both({"action": {**MAKE, "command": "pip install no-such-program"}}, checked("no-such-program -q")),
    ),
    *(
        row(f"sound {text}", None, *contract(text))
        for text in (
            "if grep -q x a; then exit 1; fi; exit 0",
            "grep -q x a || exit 1; exit 0",
            "sh -c 'sh -n x && sh -n y'",
            "trap 'rm -f x' EXIT; sh -n x",
            "sh -n x & wait $!",
            "test -s x",
            "sh -n x && echo ok",
            "grep x a >/dev/null",
            "cmp a b",
            "cat a | sort | cmp - b",
            "set | grep -F HOME",
            "shopt compat31",
            "declare -p HOME",
        )
    ),
    *(
        row(f"pattern {pattern}", "E_FIELD_VALUE", *both(checked("cat a", stdout=pattern)))
        for pattern in ("(a", "(?=a)", "a{1000000}", "\\1")
    ),
    *(
        row(f"pattern that matches anything: {pattern}", "E_CONTRACT_VACUOUS", *both(checked("echo a", stdout=pattern)))
        for pattern in ("", ".*", "x*", "(?s).*")
    ),
    row("pattern that says something of a constant status", None, *both(checked("cat a || true", stdout="ok"))),
    row(
        "proof without a contract",
        "E_FIELD_VALUE",
        *both({"proof": "red-then-green"}),
        *both({"proof": "red-then-green", **by_expression("exit_code == 0")}),
        md(run("**proof:** red-then-green")),
    ),
    row("proof with a contract", None, *both({"proof": "red-then-green", **checked("sh -n x")})),
    row("verification by an expression", None, *both(by_expression('exit_code == 0 && output.contains("ok")'))),
    *(
        row(f"verification that asks about nothing: {text}", "E_CONTRACT_VACUOUS", *both(by_expression(text)))
        for text in ("1 == 1", "true", '"a".startsWith("a")', "false")
    ),
    row(
        "exit status of what has none",
        "E_EXPR",
        *both({"action": {"type": "acquire_lock", "lock_name": "l"}, **by_expression("exit_code == 0")}),
        *both({"action": {"type": "nested_plan", "plan": json.loads(both({})[0])}, **by_expression("exit_code == 0")}),
        *both({**write(), **by_expression("exit_code == 0")}),
        hint="observed by Ordain",
    ),
    row(
        "exit status of another step that has none",
        "E_EXPR",
        *both({"action": {"type": "acquire_lock", "lock_name": "l"}}, {"when": 'steps["s1"].exit_code == 0'}),
        hint=".status",
    ),
    row(
        "exit status of what may have one",
        None,
        *both({**call("shell", command="make"), **by_expression("exit_code == 0")}),
        *both({**call("exec", argv=["make"])}, {"when": 'steps["s1"].exit_code == 0'}),
    ),
    row("verification by no boolean", "E_EXPR", *both(by_expression("output"))),
    row("verification by an unknown name", "E_EXPR", *both(by_expression("exti_code == 0"))),
    row("the end of a step in `when`", "E_EXPR", *both({"when": "exit_code == 0"})),
    row(
        "who answered a step that asks nobody",
        "E_REF",
        *both({"id": "a"}, {"action": {"type": "run", "command": "make", "env": {"WHO": "${a.answered_by}"}}}),
        hint="steps that `ask`",
    ),
    row(
        "who answered a task that an agent may do",
        "E_REF_MAY_BE_MISSING",
        *both(
            {**task(), "id": "a"},
            {"action": {"type": "run", "command": "make", "env": {"WHO": "${a.answered_by}"}}},
            **BUDGET,
        ),
        hint="answered_by ??",
    ),
]


# --- The tables, tried ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A workspace of its own, whose configuration a person trusted."""
    root = tmp_path_factory.mktemp("corpus")
    workspace = root / "workspace"
    workspace.mkdir()
    (workspace / "config.json").write_text("{}")
    for protected_file in ("tests/test_y.py", "caf\u00e9/b.txt", *PROTECTED):
        (workspace / protected_file).parent.mkdir(parents=True, exist_ok=True)
        (workspace / protected_file).write_text("x")
    (workspace / "ordain.toml").write_text(CONFIGURATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORDAIN_HOME", str(root / "state"))
        opened = open_at_terminal(workspace, exact=True)
        asyncio.run(opened.approvals.trust(opened.approvals.configuration()[1], KIM))
    yield opened
    asyncio.run(opened.close())


def cases(rows: list[Row]) -> list[Any]:
    return [
        pytest.param(one, document, id=f"{one.label[:48]!a}-{number}")
        for one in rows
        for number, document in enumerate(one.documents)
    ]


def lint(app: App, document: str | bytes) -> list[Any]:
    data = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
    beside = ("W_NOT_YET", "W_FALLBACK_UNPROVED")
    return [problem for problem in app.plans.lint(data, "x.plan").problems if problem.code not in beside]


def expected(one: Row) -> set[str]:
    return set() if one.codes is None else {one.codes} if isinstance(one.codes, str) else set(one.codes)


PLACELESS = {"E_DOC_EMPTY", "E_DOC_TOO_LARGE"}


def check(app: App, one: Row, document: str | bytes) -> None:
    problems = lint(app, document)
    assert {problem.code for problem in problems} == expected(one), problems
    for problem in problems:
        assert problem.where is not None and problem.where.file == "x.plan"
        assert problem.where.line is not None or problem.code in PLACELESS, problem
    if one.hint is not None:
        assert any(one.hint in hint for problem in problems for hint in problem.hints), problems


@pytest.mark.parametrize(("one", "document"), cases(READING))
def test_reading(app: App, one: Row, document: str | bytes) -> None:
    check(app, one, document)


@pytest.mark.parametrize(("one", "document"), cases(STRUCTURE))
def test_structure(app: App, one: Row, document: str | bytes) -> None:
    check(app, one, document)


@pytest.mark.parametrize(("one", "document"), cases(REFERENCES))
def test_references_and_expressions(app: App, one: Row, document: str | bytes) -> None:
    check(app, one, document)


@pytest.mark.parametrize(("one", "document"), cases(SURROUNDINGS))
def test_surroundings(app: App, monkeypatch: pytest.MonkeyPatch, one: Row, document: str | bytes) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", SECRETS["a variable"])
    check(app, one, document)


@pytest.mark.parametrize(("one", "document"), cases(CONTRACTS))
def test_contracts(app: App, one: Row, document: str | bytes) -> None:
    check(app, one, document)


# --- What a document alone does not show ---------------------------------------------------------------------------


def opened(root: Path, configuration: str | None = None) -> App:
    """An app over a new workspace; a configuration is trusted at once."""
    root.mkdir()
    app = open_at_terminal(root, exact=True)
    if configuration is not None:
        (root / "ordain.toml").write_text(configuration)
        asyncio.run(app.approvals.trust(app.approvals.configuration()[1], KIM))
    return app


def refused(work: Any) -> list[str]:
    with pytest.raises(Refused) as caught:
        asyncio.run(work) if asyncio.iscoroutine(work) else work()
    return [problem.code for problem in caught.value.problems]


def test_a_task_that_is_nobodys(tmp_path: Path) -> None:
    app = opened(tmp_path / "w")
    for document in (f"# T\n\n{TOP_BUDGET}\n\n1. Think.\n", *both(task(agent=None), **BUDGET)):
        problems = lint(app, document)
        assert [problem.code for problem in problems if problem.code != "W_TASK_UNVERIFIED"] == ["E_STEP_AGENT"]
        assert problems[0].where.line is not None


@pytest.mark.parametrize("text", ["[runs]\n", "[run]\nconcurency = 2\n", '[run]\nstep_timeout = "soon"\n', "not toml"])
def test_a_wrong_configuration(tmp_path: Path, text: str) -> None:
    app = opened(tmp_path / "w")
    (tmp_path / "w/ordain.toml").write_text(text)
    assert refused(app.approvals.configuration) == ["E_CONFIG"]


def test_a_policy_that_names_nothing(tmp_path: Path) -> None:
    app = opened(tmp_path / "w")
    (tmp_path / "w/ordain.toml").write_text('[policy]\ndeny = ["shel"]\n')
    with pytest.raises(Refused) as caught:
        app.approvals.configuration()
    assert [(problem.code, problem.hints) for problem in caught.value.problems] == [
        ("E_CONFIG", ("Did you mean `shell`?",))
    ]


WANTS = md(args('path: a\ncontent: "${params.number}"'), front="params: {number: {type: integer, required: true}}")


@pytest.mark.parametrize(
    ("params", "hint"),
    [
        ((), "Write `--param number=3`."),
        ((("number", "seven"),), "Write `--param number=3`."),
        ((("number", "7"), ("numbr", "7")), "Did you mean `number`?"),
    ],
    ids=["missing", "wrongly typed", "unknown"],
)
def test_a_parameter_that_does_not_fit(tmp_path: Path, params: tuple[tuple[str, str], ...], hint: str) -> None:
    app = opened(tmp_path / "w")
    with pytest.raises(Refused) as caught:
        asyncio.run(app.plans.prepare(WANTS.encode(), "x", KIM, params))
    assert [(problem.code, problem.hints) for problem in caught.value.problems] == [("E_PARAM", (hint,))]


def test_policy_denies(tmp_path: Path) -> None:
    app = opened(tmp_path / "w", '[policy]\ndeny = ["shell"]\n')
    assert refused(app.plans.prepare(SMALL.encode(), "x", KIM)) == ["E_POLICY_DENIED"]


def test_tier_not_available_is_refused(tmp_path: Path) -> None:
    app = opened(tmp_path / "w")
    assert refused(app.plans.prepare(md(run(), front="tier: 2").encode(), "x", KIM)) == ["E_TIER"]


@pytest.mark.parametrize("change", [b"# T\n\n1. `make clean`\n", None])
def test_the_document_changed_since_it_was_prepared(tmp_path: Path, change: bytes | None) -> None:
    app = opened(tmp_path / "w")
    document = tmp_path / "w/x.plan.md"
    document.write_text(SMALL)
    prepared = asyncio.run(app.plans.prepare(SMALL.encode(), "x.plan.md", KIM))
    assert app.plans.review(prepared.review.plan_id).notices == ()
    document.unlink() if change is None else document.write_bytes(change)
    (notice,) = app.plans.review(prepared.review.plan_id).notices
    assert (notice.code, notice.command) == ("W_DOC_DRIFT", "ordain prepare x.plan.md")


def test_all_members_of_a_cycle_are_named(app: App) -> None:
    document = md(run("**id:** a", "**needs:** c"), run("**id:** b", "**needs:** a"), run("**id:** c", "**needs:** b"))
    (problem,) = lint(app, document)
    assert all(f"`{name}`" in problem.detail for name in "abc")


def test_a_plan_that_holds_itself() -> None:
    from msgspec.structs import force_setattr, replace

    from tests.words import Facts, NestedPlan
    from tests.words import lint as lint_plan

    inner = NestedPlan(plan=build_plan(build_step("b")))
    made = build_plan(build_step("a"), replace(build_step("self"), action=inner))
    force_setattr(inner, "plan", made)
    assert {problem.code for problem in lint_plan(made, Facts()) if problem.code[0] == "E"} == {"E_PLAN_NESTING"}


def test_titles_that_imitate_a_border_have_digests_of_their_own() -> None:
    titles = ("T", "T|step[0]=x", 'T","steps":[]')
    plans = [read(document.encode()).plan for title in titles for document in both({}, title=title)]
    assert len({plan_id(plan) for plan in plans if plan is not None}) == 3


AWKWARD = "a\n\n---\n\n## Steps\n\n### 1. A\n\nstatus: approved\n\n**run:** x\n```\n"


def test_awkward_text_in_every_free_text_goes_through_every_notation_unchanged() -> None:
    tree = {
        "title": "T",
        "task": AWKWARD,
        "context": AWKWARD,
        "params": {"p": {"type": "string", "description": AWKWARD, "default": AWKWARD}},
        "preconditions": [{"type": "custom", "name": AWKWARD, "expression": AWKWARD}],
        "steps": [
            {"id": "run", "action": {"type": "run", "command": AWKWARD, "env": {"A": AWKWARD}}, **checked(AWKWARD)},
            {"id": "tool", **call(path=AWKWARD, content={AWKWARD: [AWKWARD]})},
            {"id": "task", **task(task=AWKWARD, instructions=AWKWARD, criteria=[AWKWARD], reads=[AWKWARD])},
            {"id": "send", "action": {"type": "send_text", "text": AWKWARD, "pane": AWKWARD, "keys": [AWKWARD]}},
            {"id": "ask", "action": {"type": "ask", "question": AWKWARD, "choices": [AWKWARD]}},
            {"id": "store", "action": {"type": "store_data", "key": "k", "value": AWKWARD}},
            {"id": "custom", "action": {"type": "custom", "action_type": "x", "payload": AWKWARD}, "when": AWKWARD},
            {"id": "abort", "action": MAKE, "on_failure": {"strategy": "abort", "message": AWKWARD}},
            {"id": "asked", "action": MAKE, "on_failure": {"strategy": "require_approval", "summary": AWKWARD}},
        ],
    }
    plan = read(json.dumps(tree).encode()).plan
    assert plan is not None
    for writer in (write_markdown, write_yaml, write_json):
        assert read(writer(plan).encode()).plan == plan


# --- Everything in one go ------------------------------------------------------------------------------------------

WRONG = md(run("**timeout:** soon"), args("path: a", tool="write_fil"), run("**contract:** true"))


def test_a_document_that_cannot_be_read_is_linted_as_far_as_it_can(app: App) -> None:
    assert [(problem.code, problem.where.line, problem.where.step) for problem in lint(app, WRONG)] == [
        ("E_FIELD_VALUE", 10, "step-1"),
        ("E_TOOL_UNKNOWN", 12, "step-2"),
        ("E_CONTRACT_VACUOUS", 20, "step-3"),
    ]
    assert app.plans.lint(WRONG.encode()).plan_id is None
    with pytest.raises(Refused):
        asyncio.run(app.plans.prepare(WRONG.encode(), "x", KIM))


def test_a_tree_that_cannot_be_read_is_linted_as_far_as_it_can(app: App) -> None:
    for document in both({"timeout_ms": "soon"}, call("write_fil"), checked("true"), {**write("../x"), "approved": 1}):
        problems = lint(app, document)
        assert [(problem.code, problem.where.step) for problem in problems] == [
            ("E_PLAN_TYPE", "s1"),
            ("E_PLAN_UNKNOWN_FIELD", "s4"),
            ("E_TOOL_UNKNOWN", "s2"),
            ("E_PATH", "s4"),
            ("E_CONTRACT_VACUOUS", "s3"),
        ]
        assert all(problem.where.line is not None for problem in problems)


@pytest.mark.parametrize(
    "document",
    [
        md("**timeout:** 1m", run("**id:** b", "**needs:** step-1")),
        md("**timeout:** 1m", args('path: a\ncontent: "${step-1.output}"')),
        md("**timeout:** 1m", args("path: gone.txt", tool="read_file")),
        md("**timeout:** 1m", think("**reads:** step:step-1"), top=TOP_BUDGET),
        md("**timeout:** 1m", run('**when:** steps["step-1"].exit_code == 0')),
        md("**timeout:** 1m"),
        *both({"action": ...}, {"needs": ["s1"]}),
        *both({"action": ...}, write(content="${s1.output}")),
        *both({"action": ...}, call("read_file", path="gone.txt")),
        *both({"action": ...}),
    ],
)
def test_what_could_not_be_read_is_not_told_as_missing(app: App, document: str) -> None:
    assert {problem.code for problem in lint(app, document)} == {"E_STEP_ACTION"}


@pytest.mark.parametrize(
    "document",
    [
        md(think(), top="**Budget:** lots"),
        md(args('path: a\ncontent: "${params.x}"'), front="params: {x: {type: text}}"),
        *both(task(), budget={"tokens": "lots"}),
        *both(write(content="${params.x}"), params={"x": {"type": "text"}}),
        *both(task(agent=None), agent=7, **BUDGET),
    ],
)
def test_a_plan_field_that_could_not_be_read_is_not_told_as_missing(app: App, document: str) -> None:
    assert len({problem.code for problem in lint(app, document)}) == 1
