"""ordain.toml: what it sets, and every way it can be wrong."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ordain.core.plan.failure import Escalate, Retry
from ordain.core.plan.role import EffectClass
from ordain.core.plan.tool import ToolDefinition, ToolSource
from ordain.core.policy.agent import Agent
from ordain.core.policy.settings import Settings
from ordain.documents.settings import key_names, keys_set, read_settings
from ordain.interfaces.cli.configuration import settings_template
from tests.rows import each


def test_the_template_is_all_defaults():
    assert read_settings(settings_template().encode()) == (Settings(), ())


def test_the_template_with_every_comment_taken_away_is_still_the_defaults():
    import re

    text = re.sub(r"^# (?=\w+ = )", "", settings_template(), flags=re.MULTILINE)
    assert keys_set(text.encode()) == key_names().keys(), "every setting is in it"
    assert read_settings(text.encode()) == (Settings(), ())


def test_every_key_is_read():
    text = b"""
[plans]
propose_ttl = "1d"
[approval]
ttl = "30m"
[run]
concurrency = 8
step_timeout = "1h"
contract_timeout = "5s"
on_failure = "retry(2), then escalate"
agent = "coder"
[policy]
allow = ["reads", "write_file"]
ask = ["list_files"]
deny = ["shell"]
[contracts]
env = ["PATH"]
[agents.coder]
preset = "codex"
model = "large"
env = ["OPENAI_API_KEY"]
network = true
[agents.own]
command = ["my-agent", "--stdin"]
[agents.code]
python = "pkg.module:function"
[agents.me]
human = true
[tools.files]
mcp = ["npx", "-y", "server", "."]
trust_annotations = true
effects = { write_file = "checkable" }
env = ["FILES_ROOT"]
[tools.far]
url = "https://example.org/mcp"
headers = { Authorization = "secret:FAR_TOKEN" }
[tools.sum]
python = "pkg.module:function"
[tools.tickets]
plugin = "tickets"
[actions.announce]
command = ["announce", "--to", "ops"]
effect = "checkable"
destructive = true
description = "Tell them."
[actions.count]
python = "pkg.module:function"
"""
    assert read_settings(text) == (
        Settings(
            propose_ttl_ms=86_400_000,
            approval_ttl_ms=1_800_000,
            concurrency=8,
            step_timeout_ms=3_600_000,
            contract_timeout_ms=5_000,
            on_failure=Retry(max_attempts=3, then=Escalate()),
            allow=("reads", "write_file"),
            ask=("list_files",),
            deny=("shell",),
            env=("PATH",),
            agent="coder",
            agents={
                "coder": Agent(preset="codex", model="large", env=("OPENAI_API_KEY",), network=True),
                "own": Agent(command=("my-agent", "--stdin")),
                "code": Agent(python="pkg.module:function"),
                "me": Agent(human=True),
            },
            sources={
                "files": ToolSource(
                    mcp=("npx", "-y", "server", "."),
                    trust_annotations=True,
                    effects={"write_file": EffectClass.CHECKABLE},
                    env=("FILES_ROOT",),
                ),
                "far": ToolSource(url="https://example.org/mcp", headers={"Authorization": "secret:FAR_TOKEN"}),
                "sum": ToolSource(python="pkg.module:function"),
                "tickets": ToolSource(plugin="tickets"),
            },
            actions={
                "custom:announce": ToolDefinition(
                    name="custom:announce",
                    description="Tell them.",
                    effect=EffectClass.CHECKABLE,
                    atomic=True,
                    destructive=True,
                    command=("announce", "--to", "ops"),
                ),
                "custom:count": ToolDefinition(
                    name="custom:count",
                    description="The custom action count.",
                    effect=EffectClass.OPAQUE,
                    python="pkg.module:function",
                ),
            },
        ),
        (),
    )


@each(
    "text",
    [
        b"\xff",
        b"not toml",
        b"[runs]\nconcurrency = 2",
        b"[run]\nconcurency = 2",
        b"[run]\nconcurrency = 0",
        b"[run]\nconcurrency = true",
        b'[run]\nconcurrency = "4"',
        b'[run]\nstep_timeout = "soon"',
        b"[run]\nstep_timeout = 5",
        b'[run]\nstep_timeout = "0s"',
        b'[run]\non_failure = "explode"',
        b'[policy]\nallow = "reads"',
        b"[policy]\nallow = [1]",
        b'[contracts]\nenv = ["LD_PRELOAD"]',
        b'[contracts]\nenv = ["BASH_ENV"]',
        b'[contracts]\nenv = ["A=B"]',
        b"run = 5",
        b'[contracts]\nenv = ["GIT_SSH_COMMAND"]',
        b'[run]\nagent = "nobody"',
        b"[run]\nagent = 7",
        b"[actions.announce]",
        b"[actions.announce]\ncommand = []",
        b'[actions.announce]\ncommand = ["a"]\npython = "a:b"',
        b'[actions.announce]\ncommand = ["a"]\neffect = "none"',
        b'[actions.announce]\ncommand = ["a"]\ndestructive = "no"',
        b'[actions.announce]\ncommand = ["a"]\nshell = true',
        b'[actions.announce]\npython = "os.system"',
        b'[actions."a b"]\ncommand = ["a"]',
        b"agents = 5",
        b"[agents]\ncoder = 5",
        b"[agents.coder]",
        b'[agents.coder]\nmodel = "x"',
        b'[agents.coder]\npreset = "codex"\nhuman = true',
        b'[agents.coder]\npreset = "gpt"',
        b"[agents.coder]\nhuman = false",
        b'[agents.coder]\ncommand = "my-agent"',
        b"[agents.coder]\ncommand = []",
        b'[agents.coder]\npython = "os.system"',
        b'[agents.coder]\npreset = "pi"\nmodle = "x"',
        b'[agents.coder]\npreset = "pi"\nenv = ["LD_PRELOAD"]',
        b'[agents.coder]\npreset = "pi"\nnetwork = "yes"',
        b'[agents.coder]\ncommand = ["a"]\nown_tools = true',
        b'[agents.coder]\npreset = "pi"\noutput = "json"',
        b'[agents.coder]\npython = "a:b"\noutput = "json"',
        b'[agents.coder]\npython = "a:b"\ncommand = ["a"]',
        b'[agents.me]\nhuman = true\nfiles = ["~/.netrc"]',
        b'[agents.me]\nhuman = true\nmodel = "x"',
        b'[agents.coder]\npreset = "pi"\nfiles = ["/etc/passwd"]',
        b'[agents.coder]\npreset = "pi"\nfiles = ["~/../x"]',
        b'[agents.coder]\ncommand = ["a"]\noutput = "xml"',
        b'[agents.coder]\ncommand = ["a"]\nprompt = "no part of ours"',
        b'[agents.coder]\ncommand = ["a"]\nprompt = "{{task}} {{nonsense}}"',
        b'[agents.coder]\ncommand = ["a", "--key", "ghp_' + b"a" * 36 + b'"]',
        b'[agents.coder]\ncommand = ["a"]\nregistered = true',
        b'[agents.coder]\ncommand = ["a", "--prompt={prompt}"]',
        b'[agents.coder]\ncommand = ["a", "--model={model}"]',
        b'[run]\nagent_for = "coder"',
        b'[run]\nagent_for = { cook = "coder" }\n[agents.coder]\npreset = "pi"',
        b'[run]\nagent_for = { code = "" }\n[agents.coder]\npreset = "pi"',
        b'[run]\nagent_for = { code = "codr" }\n[agents.coder]\npreset = "pi"',
        b'[run]\nprompt = "{{nonsense}}"',
        '[agents."cоder"]\npreset = "pi"'.encode(),
        b"[tools.files]",
        b"[tools.files]\nmcp = 5",
        b'[tools.files]\nmcp = "https://x/mcp"',
        b'[tools.files]\nurl = "ftp://x"',
        b'[tools.files]\nurl = "https://x"\nmcp = ["x"]',
        b'[tools.files]\nurl = "https://x"\nenv = ["A"]',
        b'[tools.files]\nurl = "https://x"\nheaders = { A = 1 }',
        b'[tools.files]\nurl = "https://x"\nheaders = { A = "b\\nc" }',
        b'[tools.files]\nmcp = ["x"]\nheaders = { A = "b" }',
        b'[tools.files]\npython = "no module"',
        b'[tools.files]\npython = "a:b"\neffects = { a = "reads" }',
        b'[tools.shell]\npython = "a:b"',
        b'[tools.custom]\npython = "a:b"',
        b'[tools.reads]\npython = "a:b"',
        b'[tools.files]\nmcp = ["x"]\ntrust_annotations = 1',
        b'[tools.files]\nmcp = ["x"]\neffects = { a = "harmless" }',
        b'[tools.files]\nmcp = ["x"]\neffects = ["a"]',
        b'[tools.files]\nmcp = ["x"]\nsandbox = true',
        b'[notify]\ncommand = "x"',
        b"[notify]\ncommand = [5]",
        b'[secrets]\nenv = ["*"]',
        b'[secrets]\nenv = ["A B"]',
        b'[secrets]\nfiles = ["relative"]',
        b'[secrets]\nvalues = ["x"]',
        b"[plans]\nmax_rejections = 0",
        b"[plans]\nmax_pending = true",
        b'[plans]\ndocuments = "../out"',
        b'[plans]\ndocuments = ".git/hooks"',
        b"[plans]\nmarks = true",
        b"[run]\nwriters = 0",
        b"[run]\nstalled_after = 30",
        b'[approval]\nseparate = "yes"',
        b'[approval]\napprovers = "kim"',
        b'[guard]\nmode = "block"',
        b'[guard]\nopen = ["*"]',
        b'[guard]\nguarded = "*"',
        b"[approval]\nrequire_signature = 1",
        b"a = " + b"[" * 2000,
    ],
)
def test_everything_wrong_is_a_problem(text):
    _, problems = read_settings(text)
    assert [problem.code for problem in problems] == ["E_CONFIG"]


def test_all_problems_at_once_with_hints():
    _, problems = read_settings(b"[run]\nconcurency = 2\nstep_timeout = 1\n[polcy]\n")
    assert len(problems) == 3
    assert problems[0].hints == ("Did you mean `concurrency`?",)


def test_problems_name_the_agent():
    text = b'[run]\nagent = "codr"\n[agents.coder]\npreset = "codx"\nmodle = "x"\n'
    _, problems = read_settings(text)
    assert [problem.detail for problem in problems] == [
        "ordain.toml: agents.coder.preset must be one of claude, codex, gemini, opencode, pi.",
        "ordain.toml has an unknown key agents.coder.modle.",
        "ordain.toml: run.agent names `codr`, and there is no such agent.",
    ]
    assert problems[2].hints == ("Did you mean `coder`?",)


def test_who_performs_what_kind_of_work_is_read():
    text = b"""
[run]
agent_for = { review = "critic", docs = "writer" }
prompt = "Do this: {{task}}"
[agents.critic]
command = ["critic", "{prompt}"]
description = "Finds what is wrong."
files = ["~/.critic/key"]
output = "json"
prompt = "{{agent}}: {{task}}"
[agents.writer]
preset = "claude"
command = ["/opt/claude"]
own_tools = true
[agents.me]
human = true
description = "Asks the customer."
"""
    settings, problems = read_settings(text)
    assert problems == ()
    assert settings.agent_for == {"review": "critic", "docs": "writer"}
    assert settings.prompt == "Do this: {{task}}"
    assert settings.agents == {
        "critic": Agent(
            command=("critic", "{prompt}"),
            description="Finds what is wrong.",
            files=("~/.critic/key",),
            output="json",
            prompt="{{agent}}: {{task}}",
        ),
        "writer": Agent(preset="claude", command=("/opt/claude",), own_tools=True),
        "me": Agent(human=True, description="Asks the customer."),
    }


def test_keys_that_say_nothing_about_an_agent_are_named_all_at_once():
    text = b'[agents.me]\nhuman = true\nnetwork = true\nenv = ["A"]\n[run]\nagent_for = { test = "mee" }\n'
    _, problems = read_settings(text)
    assert [problem.detail for problem in problems] == [
        "ordain.toml: agents.me.network says nothing about `human`.",
        "ordain.toml: agents.me.env says nothing about `human`.",
        "ordain.toml: run.agent_for.test names `mee`, and there is no such agent.",
    ]
    assert problems[2].hints == ("Did you mean `me`?",)


def test_one_that_is_wrong_hides_no_other():
    text = b"""
[run]
agent_for = { reveiw = "critic", docs = "nope" }
[agents.critic]
preset = "clade"
[agents.me]
human = true
prompt = "Please: {{task}}"
[agents.both]
human = true
command = ["x"]
"""
    found = {problem.detail.partition(": ")[2]: problem.hints for problem in read_settings(text)[1]}
    kinds = "code, docs, research, review, test"
    assert found == {
        f"run.agent_for has `reveiw`, and there is no such kind of work; there are {kinds}.": (
            "Did you mean `review`?",
        ),
        "run.agent_for.docs names `nope`, and there is no such agent.": (),
        "agents.critic.preset must be one of claude, codex, gemini, opencode, pi.": ("Did you mean `claude`?",),
        "agents.me.prompt says nothing about `human`.": (),
        "agents.both needs exactly one of preset, command, python, human, model; "
        "only `command` may be beside `preset`, and a `model` beside all but `human`.": (),
    }


def test_a_secret_in_a_definition_is_not_repeated():
    token = "ghp_" + "a" * 36
    _, (problem,) = read_settings(f'[agents.coder]\ncommand = ["a", "--key", "{token}"]'.encode())
    assert token not in problem.detail
    assert "`env`" in problem.hints[0]


@given(st.binary(max_size=200))
def test_any_bytes_give_settings_or_problems(data):
    settings, problems = read_settings(data)
    assert isinstance(settings, Settings)
    assert all(problem.code == "E_CONFIG" for problem in problems)


# --- Models that are agents -----------------------------------------------------------------------------------------


def model_agent(text: str) -> tuple[Any, list[str]]:
    settings, problems = read_settings(f"[agents.a]\n{text}\n".encode())
    return settings.agents.get("a"), [problem.detail.partition(": ")[2] for problem in problems]


def test_a_model_alone_is_spoken_to_where_its_provider_is_or_where_the_settings_say() -> None:
    agent, problems = model_agent('model = "anthropic:m"')
    assert not problems and agent.is_model
    assert (agent.base_url, agent.key_env) == ("https://api.anthropic.com", "ANTHROPIC_API_KEY")
    agent, problems = model_agent('model = "ollama:llama:8b"')
    assert not problems and (agent.model, agent.key_env) == ("ollama:llama:8b", "")
    agent, problems = model_agent('model = "openai-chat:m"\nbase_url = "https://x.example/v1/"')
    assert not problems and (agent.base_url, agent.key_env) == ("https://x.example/v1", ""), (
        "no key for another address"
    )
    agent, problems = model_agent('preset = "pi"\nmodel = "openai:m"')
    assert not problems and not agent.is_model, "beside a preset it is the preset's"


@each(
    "text, words",
    [
        ('model = "sonnet"', "agents.a.model must be one of"),
        ('model = "gogle:m"', "agents.a.model must be one of"),
        ('model = "openai:"', "names no model after the colon"),
        ('model = "openai:m"\nbase_url = "http://x.example/v1"\nkey_env = "K"', "would be sent the key in clear text"),
        ('model = "openai:m"\nbase_url = "x.example"', "agents.a.base_url must be an address"),
        ('model = "openai:m"\nbase_url = "https://x.example/v1"\nkey_header = "x-api-key"', "no `key_env` says which"),
        ('model = "openai:m"\nkey_env = "not one"', "agents.a.key_env must be the name of a variable"),
        ('model = "openai:m"\nkey_header = "cookie"', "agents.a.key_header must be one of"),
        ('model = "openai:m"\nenv = ["K"]', "agents.a.env says nothing about `model`"),
        ('model = "openai:m"\nown_tools = true', "agents.a.own_tools says nothing about `model`"),
        ('preset = "pi"\nbase_url = "https://x.example/v1"', "agents.a.base_url says nothing about `preset`"),
        ('command = ["x"]\nkey_env = "K"', "agents.a.key_env says nothing about `command`"),
    ],
)
def test_a_model_that_could_not_be_meant_so_is_a_problem(text: str, words: str) -> None:
    _, problems = model_agent(text)
    assert len(problems) == 1 and words in problems[0], problems
