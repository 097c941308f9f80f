"""The page of every problem code: what it means and what helps. `ordain explain CODE` shows it.

The one registry: a code that is used anywhere has a page here, and a page here is used somewhere (a test compares).
"""

from __future__ import annotations

import msgspec

__all__ = ["PAGES", "Page"]


class Page(msgspec.Struct, frozen=True):
    """About one code. `summary` leaves out everything a user chose, so that it can be recognised."""

    summary: str
    meaning: str
    remedy: str


PAGES: dict[str, Page] = {
    "E_DOC_NOT_FOUND": Page(
        "Document not found",
        "The file cannot be read: it is not there, is a directory, or is not yours to read.",
        "Check the path; `-` reads standard input.",
    ),
    "E_DOC_EMPTY": Page(
        "Document is empty",
        "There is nothing in the file but white space.",
        "The smallest plan is a title and one step:\n\n    # Tidy up\n\n    1. `ruff check --fix .`",
    ),
    "E_DOC_TOO_LARGE": Page(
        "Document is too large",
        "A document may have 16 MiB, and one text in it 1 MiB.",
        "Move large texts into files that the steps read.",
    ),
    "E_DOC_ENCODING": Page(
        "Document is not UTF-8",
        "The bytes are not valid UTF-8 text. UTF-16 is not read.",
        "Save the file as UTF-8.",
    ),
    "E_DOC_CONTROL_CHARACTER": Page(
        "Control character",
        (
            "A control character (an escape sequence, a backspace, a lone carriage return …) could make a "
            "terminal show something else than what will run."
        ),
        "Take it out. Tabs and line ends are fine.",
    ),
    "E_DOC_BIDI": Page(
        "Bidirectional control character",
        (
            "Such characters change the order in which text is shown, so a reader would see something else "
            "than what will run."
        ),
        "Take it out; text in right-to-left scripts needs none of them.",
    ),
    "E_DOC_SYNTAX": Page(
        "Document cannot be understood",
        "A part of the document is not of the form that plans have. Nothing is guessed.",
        "See docs/plan-format.md for the form; text that belongs to a field goes below that field.",
    ),
    "E_DOC_FORM": Page(
        "Document is not in form",
        "It says what it should, but some lines are not spelt as `ordain fmt` spells them.",
        "`ordain fmt -i DOCUMENT` changes these lines and no others.",
    ),
    "E_DOC_DUPLICATE": Page(
        "Given twice",
        "A field or key stands there twice; which of the two is meant cannot be known.",
        "Keep one of them.",
    ),
    "E_DOC_DEPTH": Page(
        "Nested too deep",
        "Values may be nested 16 levels deep.",
        "Make the value flatter.",
    ),
    "E_DOC_NUMBER": Page(
        "Number out of range",
        (
            "Numbers must be finite, and whole numbers at most 2^53 - 1, so that every reader understands the"
            " same value."
        ),
        "Write it as a text in quotes.",
    ),
    "E_YAML_ALIAS": Page(
        "YAML anchor or alias",
        "Anchors and aliases let a small text stand for a huge one, and hide what a step really gets.",
        "Write the value out.",
    ),
    "E_YAML_TAG": Page(
        "YAML tag",
        "Tags change how a value is read, in ways a reader does not see.",
        "Take the tag away; put texts in quotes.",
    ),
    "E_YAML_AMBIGUOUS": Page(
        "Ambiguous YAML value",
        "A plain value such as `no`, `1.10` or `12:30` means different things to different readers of YAML.",
        'Quote it: `"no"`, `"1.10"`.',
    ),
    "E_MD_FENCE": Page(
        "Fence is never closed",
        "A code fence begins and does not end, so the rest of the document would be code.",
        "Close it with a line of as many backticks.",
    ),
    "E_MD_HEADING": Page(
        "Heading out of order",
        "Steps are headed `### 1. Title`, `### 2. Title` … in order, and the document has one `# Title`.",
        "Number the steps 1, 2, 3 …; use `####` for headings inside a text.",
    ),
    "E_MD_HIDDEN": Page(
        "Hidden structure",
        ("HTML comments and underlined headings inside the steps would be hidden or changed by a Markdown view."),
        "Take the comment out; write headings with `#`.",
    ),
    "W_FIELD_UNKNOWN": Page(
        "Perhaps a misspelt or misplaced field",
        "A bold line looks like a field but is none in this place, so it was read as text and means nothing to the plan.",
        "If a field was meant, correct its name, or write it where the hint says.",
    ),
    "E_FIELD_VALUE": Page(
        "Field value cannot be read",
        "The field's value is not of the form that this field takes.",
        "The problem's hints show the forms.",
    ),
    "E_NOT_YET": Page(
        "Not carried out by this version",
        (
            "The plan format has this, but this version of ordain does not carry it out. It is refused rather"
            " than ignored, so that nobody relies on it."
        ),
        "Leave it out, or wait for a version whose changelog names it.",
    ),
    "W_NOT_YET": Page(
        "Not carried out by this version yet",
        (
            "The plan is good, but has something that this version of ordain does not carry out. Preparing it"
            " is refused with E_NOT_YET."
        ),
        "Leave it out to run the plan now.",
    ),
    "E_NAME": Page(
        "Name is not plain ASCII",
        (
            "Names of steps and tools are ASCII, because letters of other scripts can look the same and be others. The "
            "name of a model is one word that does not begin with `-`, because it stands in command lines of agents."
        ),
        "Use ASCII letters, digits, `_` and `-`.",
    ),
    "E_PLAN_UNKNOWN_FIELD": Page(
        "Unknown field",
        "The document has a key that plans do not have. A misspelt key must not be ignored.",
        "Correct or remove it.",
    ),
    "E_PLAN_TYPE": Page(
        "Wrong type",
        "A value is of another type than the format says.",
        "The problem names the type that is wanted.",
    ),
    "E_PLAN_VERSION": Page(
        "Plan version is not understood",
        "The plan is of a version that this program does not know.",
        "Use a newer ordain, or write `plan_version: 1`.",
    ),
    "E_PLAN_NO_STEPS": Page(
        "Plan has no steps",
        "A plan without steps does nothing.",
        "Add a numbered list, or `## Steps` with `### 1. Title`.",
    ),
    "E_PLAN_TOO_MANY_STEPS": Page(
        "Too many steps",
        "A plan may have 20,000 steps.",
        "Split the plan.",
    ),
    "W_PLAN_LARGE": Page(
        "Large plan",
        "Nobody reviews more than 200 steps with care.",
        "Split it into plans that can each be approved on their own.",
    ),
    "E_STEP_ACTION": Page(
        "Not exactly one action",
        "A step does exactly one thing: `**run:**` a command, or call a `**tool:**`.",
        "Give each step one action; make two steps of two.",
    ),
    "E_STEP_ID": Page(
        "Step id is wrong or not unique",
        (
            "Ids are letters, digits, `_` and `-`, at most 64, not a number and not `none`; every step has "
            "its own. Without `**id:**` the id comes from the title."
        ),
        "Give the step an `**id:**`.",
    ),
    "E_STEP_CYCLE": Page(
        "Steps need each other in a circle",
        "None of them could ever start.",
        "Remove one of the needs.",
    ),
    "E_STEP_UNKNOWN_NEED": Page(
        "Unknown need",
        "A step needs something that is not a step of this plan.",
        "Name the step by its id or number.",
    ),
    "E_STEP_LIMIT": Page(
        "Limit out of range",
        (
            "Timeouts are more than zero and at most a day, a step is retried at most 100 times, at most 64 "
            "steps run at once."
        ),
        "Choose a value within the limits.",
    ),
    "E_PLAN_NESTING": Page(
        "Plans nested too deep",
        "A plan inside a plan inside a plan is as deep as it goes: a fourth level could not be shown to anybody in full. A plan can not hold itself.",
        "Make a plan of its own of the innermost steps.",
    ),
    "E_PARAM": Page(
        "Parameter is wrong",
        "A parameter's default, or the value given for it, is not of the parameter's type, or a required one has no value.",
        "Give a value of the type that `params` names.",
    ),
    "W_FOREIGN_ID": Page(
        "Id made by another program",
        "The document carries ids that another program computed in its own way. They are kept beside the plan as its names elsewhere; they are neither checked nor believed.",
        "Nothing to do. Leave them out if nobody needs them.",
    ),
    "E_DIALECT": Page(
        "Not sayable in the dialect",
        "The plan says something for which the form of that seed has no place, or which its readers would take for something else. Nothing was written: a plan is written whole or not at all.",
        "Write it in another dialect or notation, or change the plan so that the dialect can say it.",
    ),
    "W_DIALECT": Page(
        "Left out beside the plan",
        "The document says something beside the plan (a status, an owner, notes …) for which the form of that seed has no place. The plan itself is whole.",
        "Nothing to do, unless somebody needs it there.",
    ),
    "E_REF_PLACE": Page(
        "Reference in the wrong place",
        (
            "A result of another step may not be put into the text of a command, where the value could break out of it, "
            "nor decide which tool or program is run."
        ),
        "Pass values in another way: in `env`, or as an argument of `exec`.",
    ),
    "E_REF": Page(
        "Reference leads nowhere",
        "A reference `${…}` is not closed, names a step, key or parameter that is not there, or a step that can not have run before this one.",
        "Correct the name, or add the step to `needs`. `$${` stands for a literal `${`.",
    ),
    "E_REF_MAY_BE_MISSING": Page(
        "Result may be missing",
        "The reference is to a step that may be skipped or fail while the plan goes on, and then there is no result to put in.",
        'Give a default: `${a.output ?? "none"}`.',
    ),
    "E_EXPR": Page(
        "Expression is wrong",
        "The expression is not CEL, names something that is not there, is not a yes-or-no question, or could take too long. It is checked before anybody is asked to approve.",
        'Write a condition such as `steps["a"].exit_code == 0`.',
    ),
    "E_ASK": Page(
        "A question that nobody could answer",
        "A step asks a person, and its question is empty, its choices are not different words, it has choices and a schema, or the schema has something that is not looked at here: references, formats and conditions are not.",
        "Give a question, and choices, or a schema of `type`, `enum`, `pattern`, `minimum`, `properties`, `required`, `items` and the like, or neither for a text.",
    ),
    "E_TOOL_UNKNOWN": Page(
        "Unknown tool",
        "No tool of this name is registered.",
        "Check the spelling; a command is written `**run:** …`, or is a call of `shell`.",
    ),
    "E_ACTION_UNKNOWN": Page(
        "Custom action without a handler",
        (
            "A step does a `custom` action of a type for which nothing is registered here: neither in the `ordain.toml` "
            "that was trusted, nor by the program that uses Ordain."
        ),
        'Register it and have it trusted:\n\n    [actions.announce]\n    command = ["announce", "--stdin"]',
    ),
    "W_TOOL_SOURCE": Page(
        "Tools that cannot be had now",
        "What `[tools.NAME]` of ordain.toml names does not say what tools it has. Plans that use it are refused with `E_TOOL_SOURCE`; all others work.",
        "The problem says why.",
    ),
    "E_TOOL_SOURCE": Page(
        "Tools that cannot be had",
        "What `[tools.NAME]` of ordain.toml names does not say what tools it has: the Python function cannot be imported, the plugin is not installed, or the server does not start, answer or make sense. Nothing can be approved that nobody has seen.",
        "The problem says why. Look at it with `ordain tools`, or at what the configuration says.",
    ),
    "E_SECRET_REFERENCE": Page(
        "Secret that no call may have",
        "An argument `secret:NAME` stands for the value of the variable NAME, which the tool gets when it is called. Only variables that `[secrets] env` of ordain.toml means can be named, for only they are kept out of everything that is written or shown.",
        "Check the spelling, or add a pattern to `[secrets] env` and have it trusted.",
    ),
    "E_TOOL_OPERATION": Page(
        "Unknown operation",
        "The tool has no operation of this name, or none at all.",
        "Check the spelling; the hints name the operations there are.",
    ),
    "E_AGENT_UNKNOWN": Page(
        "Unknown agent",
        "No agent of this name is configured, so nobody would do the task.",
        "Check the spelling, or add `[agents.NAME]` to ordain.toml and `ordain trust` it.",
    ),
    "E_AGENT_START": Page(
        "Agent cannot be started",
        "A task of the plan would be performed by an agent that is not there, whose program is not installed here or not seen in the sandbox, or whose module cannot be found, so no run was begun. What performs each task is told by `ordain show`.",
        "Install the program, say with `command` in `[agents.NAME]` where it is, or let another agent do the task; `ordain agents` shows what was found.",
    ),
    "W_AGENT_START": Page(
        "Agent cannot be started here",
        "The program or module of an agent that performs a task of the plan was not found here, or is not seen in the sandbox that the plan runs in. The plan can be prepared and approved; a run would be refused (E_AGENT_START).",
        "Install it before the plan is committed; `ordain agents` shows what was found.",
    ),
    "W_AGENT_UNUSED": Page(
        "Agent or model without a task",
        "An agent or a model is named where no step has a task, so nothing comes of it.",
        "Take it out, or write the task that it was meant for.",
    ),
    "E_STEP_AGENT": Page(
        "Task without an agent",
        "A task is for an agent, and neither the step, the plan nor the configuration names one.",
        "Write `**agent:** NAME` in the step, or `agent: NAME` in the front matter.",
    ),
    "E_WORKFLOW_UNKNOWN": Page(
        "Unknown workflow",
        "No workflow of this name is known here.",
        "Check the spelling.",
    ),
    "E_ENV_NAME": Page(
        "Variable may not be set",
        "The variable changes which program runs or what it loads, so a step could do something else than what was approved; or its name is none that bash takes.",
        "Leave it out; write the option on the command itself.",
    ),
    "E_TOOL_ARGS": Page(
        "Arguments do not fit",
        "The call's arguments do not fit the tool's parameters.",
        "The problem says which one and why.",
    ),
    "E_TOOL_OUT_OF_SCOPE": Page(
        "Tool outside the plan's scope",
        "The plan lists its tools, and a step uses another. A command is the tool `shell`.",
        "Add it to `tools:`, or leave the step out.",
    ),
    "E_PATH": Page(
        "Path outside the workspace",
        (
            "Paths are relative to the workspace and stay beneath it; `.git/hooks` and `.ordain` are off limits, and "
            "what is moved or deleted is not the workspace itself."
        ),
        "Use a path beneath the workspace.",
    ),
    "E_READS_MISSING": Page(
        "File to be read is not there",
        "The step reads a file that does not exist and that no earlier step writes.",
        "Correct the path, or say in an earlier step that it `writes` the file.",
    ),
    "E_WRITES_CONFLICT": Page(
        "Two steps write one path at once",
        "Nothing says which of the two steps comes first, so whichever is slower would win; or one writes what the other protects, and it would be put back.",
        "Let one of them need the other.",
    ),
    "W_BUDGET": Page(
        "Budget does not fit",
        "Agents work without a budget that ends them, the steps' budgets add up to more than the plan's, or one of them alone is larger.",
        "Give the plan a `**Budget:**` that covers its steps.",
    ),
    "E_PLAN_SECRET": Page(
        "Secret in the plan",
        "The plan holds something that looks like a password, key or token, or the value of a variable of this environment named *_TOKEN, *_KEY or *_SECRET. Plans are stored, shown and sent to agents.",
        "Take it out and revoke it if it is real; let the program read it from where secrets are kept.",
    ),
    "W_APPROVAL_CODE": Page(
        "Approval code in a plan",
        "A code that gives approval is a leak when it stands in a plan, so this one is ignored. It approves nothing.",
        "Take it out; a person approves with `ordain approve`.",
    ),
    "E_TIER": Page(
        "Trust tier not available",
        (
            "The plan, or `[run] tier` in ordain.toml, demands a stronger trust tier than can be had here. Tier 1 needs "
            "Linux and bubblewrap, and a system that lets it make namespaces; and nothing can hold an agent to it that is a "
            "function of the program that runs the plan. Nothing is run at a weaker tier instead."
        ),
        (
            "Install bubblewrap (`apt-get install bubblewrap`), run the plan where the tier can be had, or have a person "
            "approve it with a lower `tier`. An agent that is a function is named in ordain.toml instead, with `python`: then it "
            "runs in a process of its own, in the sandbox. SECURITY.md says what each tier holds against."
        ),
    ),
    "E_COMMAND_SYNTAX": Page(
        "Command cannot be parsed",
        "The command is empty, or bash cannot read it.",
        "Try it with `bash -n -c '…'`.",
    ),
    "E_PROTECT": Page(
        "Files cannot be protected",
        (
            "What a plan protects is kept exactly, so that it can be put back. A file cannot be read or put back, is neither "
            "a file nor a link, is being written, or the patterns mean more than 10,000 files or 64 MiB."
        ),
        "Make the file readable and its directory writable, or begin patterns with the directory that is meant: `tests/**`.",
    ),
    "W_TOPIC_EMPTY": Page(
        "Nothing was posted to the topic",
        "The step reads a topic to which nobody has posted yet. Where that is still so when it begins, it fails.",
        "Check the name (`ordain topic` lists them), or post to it: `ordain topic NAME -m TEXT`.",
    ),
    "W_PROTECT_NOTHING": Page(
        "Nothing is protected",
        (
            "The pattern means no file that is there now, or only files of git or of ours, which it never means. Files "
            "that an earlier step makes are protected from the steps after it."
        ),
        "Check the spelling: `tests/**` is every file beneath `tests`.",
    ),
    "E_CONTRACT_SYNTAX": Page(
        "Contract cannot be parsed",
        "The contract is empty, or bash cannot read it.",
        "Try it with `bash -n -c '…'`.",
    ),
    "E_CONTRACT_VACUOUS": Page(
        "Contract proves nothing",
        "The contract's exit status is always the same, or its failures are ignored, so it would hold whatever the step did.",
        "Let it end with the check itself, such as `test -s report.txt` or `pytest -q`.",
    ),
    "W_CONTRACT_NEGATED": Page(
        "Contract is a negation",
        "A contract that begins with `!` holds as well when its command could not look at all: a file that is not there, a program that is not installed.",
        'Write it without `!` and let it want the status: `grep -q PATTERN FILE` with `exit_code == 1`, which is absent where 2 is an error; or count: `test "$(grep -c PATTERN FILE)" = 0`.',
    ),
    "W_CONTRACT_PIPE": Page(
        "Contract may hide a failure",
        "The contract switches pipefail off or has a trap that can change its exit status, so that a failure may not be seen; or it is too long or too odd to be looked into.",
        "Leave `set +o pipefail` and the trap out; put a long check into a script of its own.",
    ),
    "W_LOCK_NOT_TAKEN": Page(
        "Lock that is given back and never taken",
        "A run can give back only what it holds. A step that gives back a lock which no step of its plan takes fails.",
        "Take the lock with `acquire_lock` before, or correct its name.",
    ),
    "W_DATA_ORDER": Page(
        "Stored data that depends on chance",
        (
            "Several steps store the same key, and a step that reads it is not in order with all of them: what it gets "
            "depends on which is done first."
        ),
        "Say with `needs` who comes first, or store under different keys.",
    ),
    "W_FALLBACK_UNPROVED": Page(
        "Fallback that can not make its step pass",
        (
            "After the fallback steps the contract of the step is tried again, and only that passes it. A step without "
            "one stays failed, and the plan's failure policy follows: good for undoing something, not for doing it "
            "another way."
        ),
        "Give the step a contract that holds when the work is done, whoever did it.",
    ),
    "W_TASK_UNVERIFIED": Page(
        "Nothing verifies a task",
        (
            "What an agent or a person says about their own work is not evidence. Without a contract the step passes by "
            "their word, is called unverified in every report, and is done again in every rerun."
        ),
        (
            "Give the step a contract. Where nothing can tell, say `**verify:** none` in Markdown, "
            "`verification: {strategy: {type: none}}` in a tree, and nobody is warned."
        ),
    ),
    "W_CONTRACT_EXISTENCE": Page(
        "Contract only asks whether something is there",
        "A file that exists may be empty, old or wrong.",
        "Look at what is in it: `grep -q PATTERN FILE`, `cmp`, or the program's own check.",
    ),
    "W_CONTRACT_SIGPIPE": Page(
        "Contract may be killed by its own pipe",
        (
            "Contracts run under pipefail. `grep -q` ends at the first match, the command that feeds it may "
            "then die of SIGPIPE, and the contract looks broken."
        ),
        "Write `| grep PATTERN >/dev/null`.",
    ),
    "W_CONTRACT_PROGRAM": Page(
        "Contract needs a program that is not there",
        ("The contract begins with a program that is not installed, so it cannot hold unless a step installs it."),
        "Install the program, or add the step that does.",
    ),
    "E_CONFIG": Page(
        "Configuration is wrong",
        ("ordain.toml has an unknown key, a value that does not fit, or something this version does not carry out."),
        ("Correct it, then `ordain trust`. `ordain init` in an empty directory writes every key with its default."),
    ),
    "W_CONFIG_UNTRUSTED": Page(
        "Configuration is not trusted",
        (
            "ordain.toml lies in the workspace, where an agent can edit it, so it counts only after a person "
            "trusted exactly this content."
        ),
        "Read it, then `ordain trust`.",
    ),
    "E_POLICY_DENIED": Page(
        "Policy denies it",
        "`[policy] deny` names something the plan does. No approval overrides it.",
        "Change the plan, or change and trust the policy.",
    ),
    "E_STATE_DIR": Page(
        "State directory is not safe",
        "The ledger lives outside the workspace in a directory that only you can read and write.",
        (
            "Set ORDAIN_HOME to such a directory, or correct its mode with `chmod 700`. In your home directory, go to the "
            "project instead, or name it with `ordain -C DIR`; `ordain init` makes a directory a workspace."
        ),
    ),
    "E_PLAN_NOT_FOUND": Page(
        "Plan not found",
        "No plan of that name is known in this workspace. A document is not a plan until it was prepared.",
        "`ordain list` has the plans of this workspace, `ordain inbox --all` what waits in every one; `ordain prepare DOCUMENT` stores a plan.",
    ),
    "E_PLAN_AMBIGUOUS": Page(
        "Plan name is ambiguous",
        "More than one plan begins with these digits.",
        "Give more digits.",
    ),
    "E_PLAN_EXPIRED": Page(
        "Plan has expired",
        "It was prepared too long ago (`[plans] propose_ttl`).",
        "Prepare and approve it again.",
    ),
    "E_PLAN_APPROVAL_MISSING": Page(
        "Approval is missing",
        "Policy asks for a person's approval of this plan, and there is none.",
        "A person runs `ordain approve PLAN` at a terminal.",
    ),
    "E_PLAN_HASH_MISMATCH": Page(
        "Approval is for another plan",
        "The approval is bound to other bytes than the ones that would run.",
        "Prepare and approve the plan as it is now.",
    ),
    "E_PLAN_WORKSPACE": Page(
        "Another workspace",
        "The approval or the plan is for another workspace, or the directory was replaced since.",
        "Approve it here.",
    ),
    "E_PLAN_STALE_BASE": Page(
        "The world has changed since the approval",
        (
            "A file that the plan names, a tool's definition, the configuration, the trust tier or, where "
            "`[approval] bind_git_head` asks for it, the commit that is checked out is not what it was when the plan "
            "was approved. The problem names each. Nothing was started, and the approval is good again when things "
            "are again as they were."
        ),
        "Look at what changed, and at the plan again; put it back, or approve the plan as things are now.",
    ),
    "E_APPROVAL_EXPIRED": Page(
        "Approval has expired",
        (
            "Approvals are good for a limited time (`[approval] ttl`); one dated in the future, after the "
            "clock went back, is not good either."
        ),
        "Approve the plan again.",
    ),
    "E_APPROVAL_SPENT": Page(
        "Approval was used",
        "One approval starts one run.",
        "Approve the plan again to run it again.",
    ),
    "E_APPROVAL_REVOKED": Page(
        "Approval was taken back",
        (
            "Somebody revoked the approval, rejected or cancelled the plan, or the key that signed the approval was "
            "revoked."
        ),
        "Look at `ordain log PLAN` for who and why; approve the plan again if it is still wanted.",
    ),
    "E_APPROVAL_NOT_FOUND": Page(
        "No such approval",
        "Nothing that a run could still use fits the name: approvals that were used, expired or revoked are over.",
        "`ordain status` shows which plans are approved.",
    ),
    "E_APPROVAL_SELF": Page(
        "Not by whoever prepared it",
        "`[approval] separate = true`: a plan is approved by somebody else than the one who prepared it.",
        "Ask somebody else to approve it.",
    ),
    "E_APPROVAL_APPROVER": Page(
        "Not among the approvers",
        "`[approval] approvers` names who may approve and answer here, by user name or by the name of an enrolled key.",
        "Ask one of them; `ordain config` and `ordain approver list` show who they are.",
    ),
    "E_APPROVAL_SIGNATURE": Page(
        "A good signature is missing",
        (
            "Where `[approval] require_signature` is set, an approval, and an answer to what a run asks, counts only with "
            "the signature of an enrolled key. Once anybody is enrolled, trusting a configuration and enrolling or "
            "revoking keys need one too. The passphrase was wrong, the key is not enrolled here or not kept on this "
            "machine, or what is recorded was not signed by it."
        ),
        (
            "Sign with `--sign` and the right passphrase. If something unsigned is recorded where it should not be, "
            "somebody wrote into the ledger: look at it with `ordain audit verify --key` before anything else."
        ),
    ),
    "E_APPROVAL_RATE": Page(
        "Too many wrong passphrases",
        "Five wrong passphrases were given within a minute; each is recorded with who tried.",
        "Wait a minute. `ordain log` shows the attempts.",
    ),
    "E_APPROVER": Page(
        "Approver's key cannot be made or used",
        (
            "An approver's private key lies in `keys/NAME.key` of the state directory, sealed under a passphrase and "
            "for its owner alone. The name is not one, the passphrase is too short, there is no such key or one "
            "already, or the file is damaged, a link, another user's or open to others. No key is ever replaced."
        ),
        (
            "Do what the problem says: another name, a passphrase of at least 8 characters, or the `chmod` it prints. "
            "A damaged key cannot be repaired: restore the file from a copy, or make and enroll a key under another "
            "name and revoke this one."
        ),
    ),
    "E_CLIENT": Page(
        "Client of the MCP server cannot be added or looked at",
        (
            "Each client that reaches the MCP server over HTTP has a name and a token of its own. The name is not one, "
            "there is no client of that name or one already, or a file in `clients/` of the workspace's state is "
            "damaged, a link, another user's or open to others. A token is told once; only its digest is kept."
        ),
        "Do what the problem says. `ordain mcp token list` lists the clients; a token that was lost is revoked and made anew.",
    ),
    "E_MCP_START": Page(
        "MCP server cannot be started so",
        (
            "`ordain mcp` speaks MCP on its standard input and output, or with `--http` over HTTP on an address of this "
            "machine alone. It answers no JSON document, and it listens where others can reach it only when it was told "
            "by which name they do."
        ),
        "Let the agent's settings start `ordain mcp`, or start `ordain mcp --http` at a terminal; `ordain mcp --help` has both.",
    ),
    "E_EXTRA_MISSING": Page(
        "Library of an extra is not installed",
        "The command needs a library that comes with an extra of the package, and it is not installed.",
        "Install the extra, as in `pip install 'ordain[mcp]'`; in a checkout that is `pip install '.[mcp]'`.",
    ),
    "E_BASE_UNREADABLE": Page(
        "What the plan depends on cannot be read",
        (
            "An approval is bound to the files that the plan names and, where `bind_git_head` asks for it, to the "
            "commit that is checked out. One of them cannot be read, changes while it is read, or is more than anybody "
            "should wait for, so nobody would notice when it changes."
        ),
        (
            "Make the file readable, wait until nobody writes it, or begin patterns with the directory that is meant: "
            "`tests/**`."
        ),
    ),
    "E_PLAN_SUPERSEDED": Page(
        "Plan was replaced by a revision",
        "The document was prepared again with another content, or somebody revised the plan. Only the newest counts.",
        "Look at the revision; to have the old content back, prepare it again.",
    ),
    "E_PLAN_REJECTED": Page(
        "Plan was rejected",
        "A person said no to exactly this plan, and what should change.",
        "Change it and prepare it again, or `ordain revise PLAN DOCUMENT`.",
    ),
    "E_PLAN_NOT_YOURS": Page(
        "Plan of somebody else",
        (
            "The plan was prepared by another caller. An id is a name and no key: knowing it lets nobody but its own "
            "caller and people see, revise, start, reject or cancel the plan. That somebody tried is recorded."
        ),
        "Propose a plan of your own, or ask a person at a terminal.",
    ),
    "E_CALL_ARGUMENTS": Page(
        "Arguments do not fit the tool",
        "A tool was called with arguments it does not take, or without those it needs. Nothing was done.",
        "Look at the tool's input schema. No argument can carry an approval: a person gives it at a terminal.",
    ),
    "E_CALL_SCOPE": Page(
        "Tool that the step does not have",
        (
            "The agent of a step reaches exactly the tools that the step lists, or its plan, or those that work on files "
            "where neither lists any. It asked for another, and nothing was done."
        ),
        "Propose a revision of the plan whose step lists the tool under `tools`; a person sees that and approves it.",
    ),
    "E_HOST_SETTINGS": Page(
        "Settings of an agent's host cannot be changed",
        (
            "`ordain guard install` writes an entry into the settings of the program that an agent runs in, and takes "
            "it back. It changes nothing that it does not understand: the file is no JSON, is a link, belongs to "
            "somebody else, or has changed since it was shown. It was left as it is."
        ),
        "Mend the file, or write the entry by hand; docs/hooks.md shows it.",
    ),
    "E_TOOL_GUARDED": Page(
        "Guarded tool outside of a plan",
        (
            "An agent wanted to call a tool that is guarded here, and no run was under way in which it may. Nothing was "
            "done. What is guarded is done by a plan that a person has approved, and by nobody else, also where such a "
            "plan has this very call."
        ),
        (
            "Propose a plan with the call: the refusal holds the whole argument of `plan_propose`. A person approves it, "
            "and Ordain makes the call. What needs no plan stands in `[guard] open` of ordain.toml."
        ),
    ),
    "E_TOOL_ARGS_NOT_APPROVED": Page(
        "Approved tool, other arguments",
        (
            "A plan that a person approved calls this tool with other arguments. An approval holds for exactly what was "
            "shown; nothing was done."
        ),
        "Propose a plan with this call, or a revision of the plan that has the other one.",
    ),
    "E_CALL_BOUNDS": Page(
        "Call beyond what the step may touch",
        (
            "The agent of a step wanted to write what is outside of the step's `writes`, protected or off limits, to "
            "leave the workspace, to be handed a secret, or to touch a file that holds some. Nothing was done."
        ),
        "The problem says what it may write. If that is too little, propose a revision of the plan.",
    ),
    "E_CALLS_TOO_MANY": Page(
        "Too many calls",
        "The agent of a step has made 10,000 calls in one attempt. No more are answered, and the attempt goes on.",
        "Let the attempt end; divide the step, or let it run a command that does the whole.",
    ),
    "E_DOOR": Page(
        "No tools of a step here",
        (
            "`ordain mcp --step` reaches the tools of the step whose agent started it. There is no such step, its "
            "attempt is over, or it has more clients than there is room for."
        ),
        "Nobody but an agent at work has use for it; `ordain mcp` serves everybody else.",
    ),
    "E_DOOR_TOKEN": Page(
        "Token of another attempt",
        "Every attempt at a task has a token of its own, and is over with it. Somebody came with another one.",
        "Nothing was done. An agent that wants the tools of its step uses the variables that it was started with.",
    ),
    "E_PLAN_NEEDS_REVIEW": Page(
        "Rejected too often",
        (
            "The plan was rejected as often as `[plans] max_rejections` allows. An agent can propose no further "
            "revision of it."
        ),
        "A person reads what was said (`ordain show PLAN`) and prepares the next revision at a terminal.",
    ),
    "E_PLAN_STAGE": Page(
        "Not at this point of the plan's life",
        (
            "What was asked for does not fit where the plan is: only an undecided plan can be rejected, only one that "
            "has come to its end can be archived. docs/approvals.md has the whole table."
        ),
        "`ordain show PLAN` says where it is.",
    ),
    "E_PLAN_EXISTS": Page(
        "Plan belongs to another lineage",
        "Exactly this plan was prepared before under another name, and a plan belongs to one lineage.",
        "Use that one, or change the plan.",
    ),
    "E_PROPOSALS_TOO_MANY": Page(
        "Too many proposals",
        (
            "One agent may have so many undecided proposals at once (`[plans] max_pending`), so that none is buried; and "
            "so many within an hour, and of one plan, whatever became of them, for all of them are kept."
        ),
        "Decide or cancel some: `ordain inbox`. A person can always propose more.",
    ),
    "E_PLAN_PANE_MISMATCH": Page(
        "Pane is not the one that was approved",
        (
            "The approval is bound to the identity of each pane the plan uses; a pane of the same name that was "
            "restarted is another one."
        ),
        "Look at the pane, then approve the plan again.",
    ),
    "E_PLAN_PRECONDITION_FAILED": Page(
        "A precondition does not hold",
        "The plan says what must be so before it may begin, and it is not.",
        "See to it, and commit again: the approval was not used.",
    ),
    "E_LEDGER_EXISTS": Page(
        "Something is there already",
        "A backup or a restored ledger never takes the place of a file, and least of all of a ledger.",
        "Name another place. Look at a ledger that is there with `ordain audit verify`.",
    ),
    "E_LEDGER_MISSING": Page(
        "Nothing was recorded yet",
        "The workspace has no ledger, so there is nothing to copy or to make anew.",
        "Is it the right workspace? `-C DIR` names another.",
    ),
    "F_AUDIT_FINDINGS": Page(
        "The ledger does not fit",
        (
            "Something in the ledger is not as it was recorded, was not permitted, or is not signed as it must be. "
            "Each finding names the stream and the event."
        ),
        (
            "Read the findings. Where only tables differ, `ordain audit rebuild`; else restore a copy, and find out who "
            "could write the file."
        ),
    ),
    "E_WORKSPACE_MOVED": Page(
        "Directory was moved, and its settings stayed behind",
        (
            "The record of a workspace is found by the directory's path. By its inode this directory looks like one "
            "whose path is gone and in whose record people trusted a configuration or enrolled keys. A new record would "
            "know nothing of them."
        ),
        (
            "Take the record along with the command that is shown; approvals are bound to the old path and must be "
            "given again. If it is another directory, move the old ledger's file away."
        ),
    ),
    "W_WORKSPACE_MOVED": Page(
        "Directory was moved",
        (
            "The record of a workspace is found by the directory's path. This directory has none, and by its inode it "
            "looks like one whose path is gone. Plans, approvals and the trusted configuration stayed with the old path."
        ),
        (
            "Take the record along with the command that is shown; approvals are bound to the old path and must be "
            "given again. If it is another directory, go on: with the first plan it gets a record of its own."
        ),
    ),
    "W_SECRET_FILE": Page(
        "A file of secrets cannot be read",
        (
            "The configuration names a file whose secrets are to be hidden. It is missing, not a regular file, larger "
            "than 64 KiB, or its path is neither absolute nor begins with `~/`. What stands in it is not hidden."
        ),
        "Correct the path under `[secrets] files`, or take it out.",
    ),
    "E_FEEDBACK": Page(
        "A rejection says why",
        "Whoever revises the plan needs to know what should change.",
        'Give it with `-m "…"`, or about one step with `--comment STEP=TEXT`.',
    ),
    "E_STEP_UNKNOWN": Page(
        "No such step",
        "The plan has no step of this id.",
        "`ordain show PLAN` lists the steps.",
    ),
    "E_PROMPT": Page(
        "There is no such prompt",
        "The step is no task, no agent was started for it in that attempt, or what was told is not kept in this ledger.",
        "`ordain show RUN` tells the attempts; `ordain show PLAN --prompt STEP` shows what would be told now.",
    ),
    "E_APPROVAL_CHANNEL": Page(
        "Only a person can do this",
        ("Approving, answering and trusting are for people at a terminal. Robots and scripts can ask, never give."),
        "A person types the command at a terminal.",
    ),
    "E_USAGE": Page(
        "The command is not written so",
        "There is no such command or option, an argument is missing, or a value is not one that it takes. Nothing was done.",
        "The hint shows how the command is written; with `--help` it tells all about itself.",
    ),
    "E_INTERRUPTED": Page(
        "The command was interrupted",
        "It got a signal to end (SIGINT, as from Ctrl-C, SIGTERM or SIGHUP) before it was done. What was recorded is safe.",
        "Where a run was under way, `ordain resume RUN` goes on with it and looks first at what may have happened.",
    ),
    "E_SCHEMA_UNKNOWN": Page(
        "No such schema",
        "There are schemas of plan documents, of the envelope, of events, and of what each verb answers.",
        "`ordain schema --list` shows the names.",
    ),
    "E_WORKSPACE": Page(
        "Workspace cannot be opened",
        "The directory is not there (any more), or is not a directory.",
        "Change to a directory that is there, or name one with `-C`.",
    ),
    "E_BACKGROUND": Page(
        "The process in the background ended before it began",
        "A run was to be carried out by a process of its own, which ended without an answer that can be read.",
        "Try it at a terminal with `ordain commit PLAN`; what it says there helps.",
    ),
    "E_WORKSPACE_BUSY": Page(
        "Another process is at work",
        "As many runs are at work in this workspace as `run.writers` lets: one, unless you trusted another number.",
        "Wait until one has stopped, or leave out `--no-wait`; `ordain status` shows them.",
    ),
    "E_RUN_BUSY": Page(
        "Somebody is at work on this run",
        "One executor carries out a run, and nobody else records anything about it meanwhile.",
        "`ordain watch` shows it; `ordain pause` and `ordain cancel` reach it from another terminal. An executor that is "
        "frozen is ended first with `--take-over`.",
    ),
    "E_RUN_NOT_FOUND": Page(
        "Run not found",
        "No run of that name is known here, or none is open.",
        "`ordain status` lists what there is.",
    ),
    "E_SIGNAL_VALUE": Page(
        "Not a value for a signal",
        "A signal can carry one value: JSON with `--value` or text with `-m`, at most 1 MiB of it.",
        "Correct it, or put what is long into a file of the workspace and give its name.",
    ),
    "E_TOPIC": Page(
        "Not a topic, or not a message",
        "Nothing was posted to the topic yet, or the message is empty, longer than 64 KiB or not UTF-8.",
        "`ordain topic` lists the topics; `ordain topic NAME -m TEXT` leaves a message.",
    ),
    "E_TOPIC_FLOOD": Page(
        "Too much was posted",
        "A topic takes 120 messages an hour, and a workspace has 1,000 topics at most: whatever is posted stays in the ledger.",
        "Wait, or put what is much into a file of the workspace and post its name.",
    ),
    "E_RUN_OLD": Page(
        "Not the newest run",
        "A plan is run again from its newest run: what passed in an older one may have failed since.",
        "Name the newest run, or the plan.",
    ),
    "E_RUN_STEP": Page(
        "No such step",
        "The plan of this run has no step of that name.",
        "`ordain show RUN` lists its steps.",
    ),
    "E_RUN_AMBIGUOUS": Page(
        "Which run?",
        "More than one run fits.",
        "Name the run: `ordain resume RUN-…`, `ordain watch RUN-…`.",
    ),
    "E_RUN_OPEN": Page(
        "A run of this plan has not ended",
        "A plan is started again only when its last run has ended.",
        "`ordain resume`, or answer what it asks.",
    ),
    "E_RUN_ENDED": Page(
        "Run has ended",
        "There is nothing left to go on with.",
        "Approve and commit the plan to run it again.",
    ),
    "E_ANSWER_ITEM": Page(
        "Nothing is asked about that",
        "The run asks no person about this step now.",
        "`ordain status` lists what is asked.",
    ),
    "E_ANSWER_STALE": Page(
        "That is not what is asked now",
        (
            "An answer counts for the question that was shown. This one is for an earlier question about the step, which "
            "somebody has answered since, or something was recorded about the step while the question was being read. "
            "From the second question about a step on, `RUN/STEP@2` says which one is meant. Nothing was recorded."
        ),
        "`ordain status` shows what is asked now, with the commands that answer it.",
    ),
    "E_ANSWER_CHOICE": Page(
        "Not one of the choices",
        "The answer is not one of those the question allows.",
        "`ordain status` lists the choices.",
    ),
    "E_ANSWER_VALUE": Page(
        "The answer is of another kind",
        "The plan asks for a text, or for a value that fits a schema, and this answer is none. Nothing was recorded.",
        "`ordain show RUN/STEP` shows what is asked. A JSON value is given with `--value`.",
    ),
    "E_CODE_UNKNOWN": Page(
        "No such code",
        "No problem has this code.",
        "docs/problems.md lists all codes.",
    ),
    "E_OUTPUT": Page(
        "File cannot be written",
        "The file named with `-o` is in a directory that is not there or not yours, or is not one that may be replaced.",
        "Give a name that is free, or that of a regular file you may replace.",
    ),
    "E_OUTPUT_NOT_KEPT": Page(
        "Output is not kept",
        (
            "What a step wrote is kept exactly once its attempt has ended. The step has not begun or not ended, wrote "
            "nothing, nobody saw its end, or the ledger was restored from an export, which leaves outputs out."
        ),
        "`ordain show --verbose RUN` shows the redacted end of what every step wrote.",
    ),
    "E_LEDGER_CONFLICT": Page(
        "Somebody else wrote first",
        "The ledger has changed between looking and writing, so nothing was written.",
        "Run the command again.",
    ),
    "E_FENCED": Page(
        "Another executor took over",
        "This executor was believed dead and replaced; it may not write any more.",
        "Nothing to do: the other one goes on.",
    ),
    "E_PROCESSES": Page(
        "Processes cannot be looked for",
        "The system would not let us look for what commands left running, usually because too many files are open. Nothing goes on while something may still be at work.",
        "Close what holds so many files open, or raise the limit (`ulimit -n`), then `ordain resume`.",
    ),
    "E_LEDGER_IO": Page(
        "Ledger cannot be written or read",
        ("The disk refused (full, read-only, failing). Nothing is done whose intent cannot be recorded first."),
        "Make room or mend the disk, then `ordain resume`.",
    ),
    "E_LEDGER_BUSY": Page(
        "Ledger is busy",
        "Another process has held the ledger for too long.",
        "Run the command again.",
    ),
    "E_LEDGER_BROKEN": Page(
        "Ledger was changed",
        "The chain of hashes does not fit the stored events: something was altered, removed or damaged.",
        "Nothing of that stream can be trusted from there on; restore a copy.",
    ),
    "E_LEDGER_FOREIGN": Page(
        "Not a ledger",
        "The file where the ledger should be is another program's.",
        "Move it away, or set ORDAIN_HOME to another directory.",
    ),
    "E_LEDGER_VERSION": Page(
        "Ledger of a newer version",
        "The ledger was written by a newer ordain.",
        "Use that version.",
    ),
    "W_DOC_DRIFT": Page(
        "Document has changed since it was prepared",
        "What runs is what was prepared; the document says something else by now.",
        "Prepare it again if the change is wanted.",
    ),
    "F_STEP_FAILED": Page(
        "Step failed",
        "The command exited with a status other than 0, could not be started, or the tool failed.",
        "The report shows the end of its output; the plan's failure policy says what follows.",
    ),
    "F_READ_MISSING": Page(
        "What the step reads is not there",
        (
            "Before an agent is started, everything that its step reads is put into its prompt. Something was not there, was "
            "no text, or is nobody's to be handed on (`.git`, `.ordain`, files that hold secrets). No agent was started."
        ),
        "See to what is named, then try the step again; `ordain show PLAN --prompt STEP` shows what would be told.",
    ),
    "F_AGENT_CANNOT": Page(
        "The agent says that it cannot be done",
        "The agent of a step said that its contract cannot be satisfied by doing the task, and why.",
        "A person decides: change the plan, try again, skip the step, or say that it is done all the same.",
    ),
    "F_RUN_STOPPED": Page(
        "Run stopped",
        (
            "The run could not go on, for example because the ledger could not be written. Steps that were "
            "under way are in doubt until the run is resumed."
        ),
        "See to the other problem first, then `ordain resume`.",
    ),
    "F_STEP_TIMEOUT": Page(
        "Step timed out",
        "The step did not end within its timeout and was ended, with everything it had started.",
        "Raise `**timeout:**`, or find out why it hangs.",
    ),
    "F_PRECONDITION": Page(
        "Something did not hold before a step",
        (
            "A precondition of the step did not hold when its turn came, its condition gave no answer, or what it is "
            "to be repeated for is no list. Nothing was begun; the failure policy says what follows."
        ),
        "Make it hold, then `ordain rerun`; or have it tried again by `**on_fail:** retry(5, 1m)`.",
    ),
    "F_REF_VALUE": Page(
        "A result does not fit where it is put",
        (
            "A value that a reference stands for is of another type than the tool takes, is a list where one argument "
            "of a program is wanted, or is too long. Nothing was begun; the failure policy says what follows."
        ),
        "Refer to the part that fits, as in `${step.output.name}`; hand long values over in a file.",
    ),
    "F_POLICY_DENIED": Page(
        "Policy denies what a step came to",
        (
            "An argument that was known only when the run got there leads where `[policy] deny` says that no plan may "
            "go. Nothing was begun."
        ),
        "Look at the result that the argument refers to: `ordain show RUN --output STEP`.",
    ),
    "F_STEP_STOPPED": Page(
        "Step was stopped",
        "Another step's failure aborted the run while this one was under way.",
        "See the step that failed.",
    ),
    "F_STEP_IN_DOUBT": Page(
        "Step is in doubt",
        (
            "The executor died after it had begun the step and before it saw the end. Nobody can tell from "
            "outside whether its effect happened, so it is not run again without a person's word."
        ),
        "Find out, then `ordain answer RUN/STEP happened` or `did-not`, and `ordain resume`.",
    ),
    "F_CONTRACT_BROKEN": Page(
        "Contract is broken",
        "The harness ran the step's contract and it did not hold, whatever the step itself said.",
        "The report shows the end of its output.",
    ),
    "F_CONTRACT_INCONCLUSIVE": Page(
        "Contract could not be judged",
        "It timed out, was killed or could not be started, so it says neither yes nor no.",
        "Mend the contract or its surroundings.",
    ),
    "F_CONTRACT_TAMPERED": Page(
        "Protected file was changed",
        (
            "A file that the plan or the step protects was changed or removed while the step was at work. Whatever its "
            "contract would say then proves nothing, so the step does not pass. The files were put back before anything "
            "went on; what stood in their place lies in `.ordain/replaced`. Of several steps that were at work at once, "
            "nobody can tell which did it, and it counts against all of them."
        ),
        "Look at what the step does; where a file is meant to change, protect it no longer and prepare the plan again.",
    ),
    "F_CONTRACT_GREEN_BEFORE": Page(
        "Contract held before the step",
        (
            "The step wants proof that its contract can be broken (`proof: red-then-green`), and the contract held before "
            "the step did anything. It would hold afterwards too, whatever the step did; so nothing was done."
        ),
        "Ask for what is not there yet, or leave the step out if it is done already.",
    ),
    "F_PROTECT_FAILED": Page(
        "Files could not be protected",
        (
            "Before the step, what must not change was to be kept, and that was not possible: a file cannot be read, is "
            "being written, or there is too much of it. The step did nothing."
        ),
        "See to the file, or let the patterns mean fewer files.",
    ),
    "F_PATH_ESCAPE": Page(
        "Path leads out of the workspace",
        "The path is off limits, or a link in the way could lead anywhere, so the tool did nothing.",
        "Remove the link, or name the real path.",
    ),
    "B_BUG": Page(
        "A bug in ordain",
        "Something happened that the code says cannot happen. What was recorded before is safe.",
        "Please report it with the message.",
    ),
}
