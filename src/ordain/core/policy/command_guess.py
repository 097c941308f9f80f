"""What a command may do, guessed from its words: an alarm may rest on a guess, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ordain.core.policy.fact import CommandFact, FactNote
from ordain.core.policy.program import SHELLS, Words
from ordain.core.policy.settings import SECRET_NAMES
from ordain.core.text.pattern import compile_later
from ordain.core.text.secret import may_name


def _any(*groups: str) -> str:
    return "|".join(word for group in groups for word in group.split())


# --- Words of unknown programs ----------------------------------------------------------------------------------------

_GUESSED = {
    CommandFact.DELETES: _any(
        "delete destroy drop purge wipe erase prune rm remove uninstall teardown nuke clobber truncate evict terminate",
        "del",
    ),
    CommandFact.PUBLISHES: _any("publish deploy release upload push promote ship submit send rollout sync-to post"),
    CommandFact.REMOTE: _any(
        "prod production live migrate restore rollback failover apply scale restart drain cordon reset revoke rotate",
        "grant",
    ),
    CommandFact.FORCE: _any(
        "force no-verify yes assume-yes auto-approve skip-confirm noconfirm unsafe allow-root insecure"
    ),
}
_GUESSED_WORDS = {
    fact: compile_later(rf"(?:-{{1,2}})?(?:[\w.]+[:/.-])?(?:{words})(?:ed|s)?(?:[:=_/.-][\w.-]*)?\Z", re.IGNORECASE)
    for fact, words in _GUESSED.items()
}
_SUFFIX = compile_later(r"\.(?:sh|py|js|ts|rb|pl|bash)\Z")


def guesses_in(words: Words) -> Iterator[FactNote]:
    """What the words of an unknown program suggest. The name of a script counts: `./deploy.sh`."""
    first = words[0]
    said = [_SUFFIX.sub("", first).rpartition("/")[2]] if first is not None else []
    for word in (*said, *words[1:]):
        if word is not None and len(word) <= 60:
            yield from (FactNote(fact, word) for fact, pattern in _GUESSED_WORDS.items() if pattern.match(word))


# --- Texts of programs -----------------------------------------------------------------------------------------------

_CODE = {
    CommandFact.DELETES: (
        r"rmtree|os\.(?:remove|unlink|rmdir|removedirs)|\bunlink(?:Sync|_file)?\b|\brm(?:dir)?(?:Sync|_rf?)?\s*\(",
        r"File\.delete|FileUtils\.rm|\.unlink\(|\brm\s+-|remove_dir_all|fs\.rm|rimraf|del\s+/|[\"']rm[\"']|git\s+clean",
        r"rm_rf!?|\bremove(?:Sync|Tree)\(|\.(?:delete|terminate|remove|purge|destroy)_\w+\(|open\([^()]*[\"']w[\"']\)\.close|truncateSync",
        r"to\s+delete\b|\brmdir\s+[\"']|File\([^)]*\)\.delete|rm\([\"']|flushall\(|flushdb\(|\.(?:delete|deleteMany|destroy)\(\)",
        r"remove_tree|drop_all|delete_all|destroy_all|file\s+delete|\.remove\(\s*[\"']|\.delete\(\)|delete-(?:directory|file)|Remove-Item|unlink|\brm\s+\S|truncate\(",
    ),
    CommandFact.RUNS_DOWNLOADED: (
        r"(?:exec|eval|system|Function)\s*\(?.*(?:urlopen|requests\.get|fetch\(|https?://)",
        r"https?://\S+.*\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|DownloadString|\b(?:irm|iwr)\b.*\biex\b",
    ),
    CommandFact.DISRUPTS: (r"os\.kill|process\.kill|Process\.kill|\bkillall\b|\bshutdown\b|\breboot\b|keystroke",),
    CommandFact.PUBLISHES: (
        r"requests\.(?:post|put|patch|delete)|smtplib|\.sendmail|http\.client|urlopen\(.*data",
        r"(?:axios|httpx|session|got|client)\W{1,3}(?:post|put|patch|delete)\(|Net::HTTP\.(?:post|put|delete)|TCPSocket|Socket::INET|net['\"]\)\.connect|ftplib",
        r"\.(?:put|create|update|modify|stop|start|run|send)_(?:\w+)\([^)]*(?:Bucket|Instance|Function|Table|Queue|Topic)",
        r"method\W+(?:POST|PUT|DELETE)|socket\.(?:socket|create_connection)|/dev/(?:tcp|udp)/|\bmail\(",
    ),
    CommandFact.CREDENTIALS: (
        r"os\.environ(?!\[?.{0,3}(?:PATH|HOME|LANG|USER))|process\.env\b(?!\.(?:PATH|HOME|NODE_ENV|CI|PORT))",
        r"\bENV\[|%ENV|\bgetpass|\.ssh/|\.aws/|/etc/shadow",
    ),
    CommandFact.PERMISSIONS: (r"os\.ch(?:mod|own)|fs\.ch(?:mod|own)|ch(?:mod|own)Sync|\bchmod\b|\bchown\b|setuid",),
    CommandFact.HIDDEN: (
        r"subprocess|os\.(?:system|exec|popen)|child_process|\bexec(?:Sync|File)?\s*\(|\bsystem\s*\(|\bpopen|Popen|\bspawn",
        r"pickle\.loads?\(|ctypes|paramiko|pexpect|pip\.main|\bexec\s+[\"']|\bqx\b|%x\(|@load\b|importlib\.import_module|urlretrieve",
        r"b64decode|atob\(|fromCharCode|\bpack\(|\beval\b|__import__|shell_exec|passthru|proc_open|fsockopen|writefile\(|Runtime\.getRuntime",
    ),
    CommandFact.OUTSIDE: (
        r"open\(\s*[\"'](?:/(?!tmp|dev/null)|~)[^)]*[\"'][wax]",
        r"(?:[wW]rite\w*|file_put_contents|rename\w*|cp\w*|move|copy\w*|symlink)\(\s*(?:[\"'][^\"']*[\"']\s*,\s*)?[\"'](?:/(?!tmp|dev/null)|~|\.\./)",
    ),
    CommandFact.PRIVILEGED: (r"\bsudo\b|\bdoas\b",),
}
_CODE_FOUND = {fact: compile_later("|".join(patterns), re.DOTALL) for fact, patterns in _CODE.items()}


def guesses(text: str) -> Iterator[FactNote]:
    """What a text of a program, or one that cannot be taken apart, suggests."""
    for fact, pattern in _CODE_FOUND.items():
        found = pattern.search(text)
        if found is not None:
            yield FactNote(fact, found[0][:40])
    if " " in text and (found := _SQL_IN_CODE.search(text)) is not None:
        yield from guesses_of_sql(found[1])


_SQL_IN_CODE = compile_later(
    r"[\"'](\s*(?:drop\s|truncate\s|delete\s+from|update\s+\S+\s+set|alter\s+table|insert\s+into).*)",
    re.IGNORECASE | re.DOTALL,
)

# --- A whole line -----------------------------------------------------------------------------------------------------

_SHELL = r"(?:ba|da|z|k|fi)?sh"
_HERE = r"(?:\A|[;&|\n(){]|\bthen\b|\bdo\b)\s*"
_NOTHING = r"(?::|true|cat /dev/null|echo -n|(?:echo|printf)\s+(?:''|\"\"))?"
_LINE = (
    (CommandFact.DELETES, compile_later(rf"{_HERE}{_NOTHING}\s*>\|?\s*(?![>&])(?!/dev/)([^\s>&|;]+)")),
    (CommandFact.OUTSIDE, compile_later(rf"{_HERE}mv\s(?:-\S+\s+)*(/~?/?[\w.-]+/[^\s;&|]*\*)")),
    (CommandFact.HIDDEN, compile_later(r"((?:\A|[;&]\s*)\{[\w./-]+(?:,[\w./-]+)+\}|:\(\)\s*\{|PATH=[\"']?/tmp\b)")),
    (CommandFact.HIDDEN, compile_later(r"(\b(?:ba|da|z|k)?sh\b[^|;&\n]*<\s*<\()")),
    (CommandFact.HIDDEN, compile_later(r"((\w+)\s*\(\)\s*\{\s*\2\s*[|&])")),
    (
        CommandFact.RUNS_DOWNLOADED,
        compile_later(
            rf"(\b(?:curl|wget|fetch|aria2c)\b[^|;&\n]*\|\s*(?:sudo\s+(?:-\S+\s+)*)?{_SHELL}\b"
            rf"|(?:{_HERE}(?:\.|source)|\b{_SHELL})\s[^|;&\n]*<<<\s*[\"']?\$\((?:curl|wget)\b)"
        ),
    ),
    (
        CommandFact.HIDDEN,
        compile_later(
            r"(\b(?:\w*PAGER|\w*EDITOR|VISUAL|BROWSER|\w+_SSH(?:_COMMAND)?|\w*ASKPASS|LESSOPEN|\w+_ENV|\w+_RSH|GIT_EXTERNAL_DIFF|"
            r"PROMPT_COMMAND|GIT_PROXY_COMMAND)=[\"'](?!(?:less|more|cat|vim?|nvim|nano|code|emacs|ssh|-+)[\s\"'])[^\"'\s]+\s)"
        ),
    ),
    (
        CommandFact.HIDDEN,
        compile_later(
            rf"([\"']{_SHELL}\s+-c\s|\b[gmn]?awk\b[^\n]*[\"'][^\n]*\|\s*getline|\bed\b[^|;&\n]*<<<\s*[\"']!"
            r"|\bsed\s[^|;&\n]*?[\"']s(?P<by>[^\w\s])[^\"'\n]*(?P=by)[gip\d]*e[gip\d]*[\"'\s;])"
        ),
    ),
    (CommandFact.PUBLISHES, compile_later(r"(\|\s*openssl\s+s_client\b)")),
    (
        CommandFact.HIDDEN,
        compile_later(r"(\b(?:LD_PRELOAD|DYLD_INSERT_LIBRARIES|HISTFILE|HISTSIZE)=|\bunset\s+HISTFILE)"),
    ),
)
"""Among them: files that a redirection empties; names that braces, loaded libraries and forgotten histories hide."""
_MAY_DO = compile_later(
    r"\bmv\s|[{>]|<\(|<<<|PATH=|PRELOAD|LIBRARIES|HIST|(?:PAGER|EDITOR|VISUAL|BROWSER|ASKPASS|OPEN|_[A-Z]+)=|\|\s*(?:sudo|\w*sh\b)|sh\s+-c"
    r"|getline|s_client|\bsed\s"
)


def guesses_of_line(text: str) -> Iterator[FactNote]:
    """What a line suggests as a whole."""
    if _MAY_DO.search(text) is None:
        return
    for fact, pattern in _LINE:
        yield from (FactNote(fact, found[1]) for found in pattern.finditer(text))


# --- Statements for databases -----------------------------------------------------------------------------------------

_OBJECTS = _any(
    "table database schema index view user role column owned type function tablespace collection keyspace warehouse",
    "stream topic pipeline",
)
_SQL_CHANGES = compile_later(
    "|".join(
        (
            rf"\bdrop\s+(?:materialized\s+)?(?:{_OBJECTS})\b|\btruncate\b|\bdelete\s+from\b|\bupdate\s+[\w.\"`]+\s+set\b",
            r"\balter\s+(?:table|user|role|database|system|schema|default)|\b(?:insert|replace)\s+into\b|\b(?:grant|revoke)\s",
            r"\bcreate\s+(?:or\s+replace\s+)?(?:user|role|table|database|function|extension|trigger|unique|index)\b",
            r"\bvacuum\s+full|\breindex\b|\bcopy\s.*\bfrom\b|\bpg_(?:terminate|cancel)_backend|\bset\s+password",
            r"\bflush(?:all|db|\s)|\bkill\s+\d|\bshutdown\b|\bpurge\s|\breset\s+(?:master|slave)|\bload\s+data|\b(?:de|at)tach\b",
            r"\bauthentication_string\b|\bpg_shadow\b|\bpg_authid\b|\bmysql\.user\b",
            r"\.(?:drop(?:Database|Index|Collection|User)?|delete(?:One|Many)|remove|update(?:One|Many)?)\s*\(",
            r"\.(?:insert(?:One|Many)?|renameCollection)\s*\(|\\!|\\copy|\\i\b|into\s+(?:out|dump)file|to\s+program",
            r"(?:\A|\s)\.(?:shell|system|import|restore|read|output|save|clone)\b|load_extension|lo_export",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
_SQL_FIRST = compile_later(r"(?:\A|;)\s*([a-z]+)(?=\s+[a-z\"`(]|\s*\Z)(?:\s+([a-z]+))?", re.IGNORECASE)
_SQL_LOOKS = frozenset(
    _any(
        "select show explain describe desc table values with pragma use begin commit rollback end fetch declare help",
        "analyze check list from match return status print exists info ping keys get scan type ttl hgetall llen source",
        "db it load set abort start savepoint vacuum profile var const let print printjson summarize unwind optional",
    ).split("|")
)
_SQL_CALLS = compile_later(
    r"\b(?:setval|lo_import|pg_read_(?:binary_)?file|pg_ls_dir|pg_reload_conf|pg_rotate_logfile|dblink_exec|xp_cmdshell)\b"
    r"|\bset\s+(?:global|persist)\b|\bwritable_schema\b|\bdrop\s+\w|\bthen\s+delete\b|\bdetach\s+delete\b"
    r"|\.(?:findOneAnd\w+|bulkWrite|replaceOne|shutdownServer|stepDown|createUser|createIndex(?:es)?|adminCommand"
    r"|fsyncLock|killOp|renameCollection|setProfilingLevel|createCollection|reconfig|updateUser|grantRoles\w+)\s*\(",
    re.IGNORECASE,
)
_SQL_LOSES = compile_later(r"drop|truncate|delete|flush|purge|\.(?:drop|delete|remove)", re.IGNORECASE)


def guesses_of_sql(text: str) -> Iterator[FactNote]:
    """What statements for a database change."""
    for found in _SQL_CHANGES.finditer(text):
        about = found[0].strip()[:40]
        yield FactNote(CommandFact.REMOTE, about)
        if _SQL_LOSES.match(about):
            yield from (FactNote(CommandFact.DELETES, about), FactNote(CommandFact.IRREVERSIBLE, about))
    if (called := _SQL_CALLS.search(text)) is not None:
        yield FactNote(CommandFact.REMOTE, called[0][:40])


def statements_change(text: str) -> Iterator[FactNote]:
    """The same of a text that is nothing but statements: each begins with a verb that is known to look, or changes."""
    yield from guesses_of_sql(text)
    for found in _SQL_FIRST.finditer(text):
        if found[1].lower() not in _SQL_LOOKS:
            yield FactNote(CommandFact.REMOTE, found[0].strip("; ")[:40])


# --- Names of secrets -------------------------------------------------------------------------------------------------

_VARIABLE = compile_later(r"\$\{?!?([A-Za-z_][A-Za-z0-9_]*)")
_FINE = frozenset(["PWD", "OLDPWD", "SSH_AUTH_SOCK", "KEYS", "KEY", "TOKENS"])
_APART = compile_later(r"""[\s'"=;|&<>(){},`]+""")
_SECRET_PATH = compile_later(
    r"(?:\A|/)(?:"
    + "|".join(
        (
            r"\.ssh(?:/|\Z)|\.gnupg|\.aws(?:/credentials|/config|/?\Z)|[._]netrc|\.npmrc|\.pypirc|\.git-credentials|\.vault-token",
            r"\.(?:bash|zsh|psql|mysql|python|node_repl)_history|\.docker/config\.json|\.kube/config|\.config/(?:gh|gcloud|op)(?:/|\Z)|\.azure(?:/|\Z)|\.password-store|\.pgpass",
            r"run/secrets(?:/|\Z)|\.my\.cnf|id_(?:rsa|dsa|ecdsa|ed25519)|authorized_keys|g?shadow\Z|sudoers|master\.key|\.envrc",
            r"\.(?:cargo|gem|terraform\.d)/credentials|\.m2/settings|\.s3cfg|\.boto|rclone\.conf|\.htpasswd|ssh_host_|\.keytab",
            r"wp-config\.php|\.config/(?:hub|doctl|heroku|configstore|sops|age)(?:/|\Z)|\.netlify/config|\.fly/config|\.vault_pass",
            r"service[-_]?account[^/]*\.json|\.tfvars|\.tfstate|/etc/ssl/private|\.(?:bitcoin|electrum|ethereum)/|\.ovpn",
            r"\.env(?!\.(?:example|sample|template|dist|test)\b)(?:\.|\Z)",
            r"terraform\.tfstate|Login Data|cookies\.sqlite|wallet\.dat|(?:secrets?|credentials)\Z",
            r"[^/]*(?:credential|secret)s?[^/]*\.(?:json|ya?ml|toml|ini|txt|env|cfg|properties|xml|key)\Z",
            r"[^/]+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg)\Z",
        )
    )
    + r")|/environ\b|keychain|169\.254\.169\.254|metadata\.google|\bAKIA|_authToken",
    re.IGNORECASE,
)


@lru_cache(maxsize=8192)
def is_secret_path(path: str) -> bool:
    """Whether a path looks like a file that holds credentials."""
    return _SECRET_PATH.search(path.removeprefix("@")) is not None and not path.endswith(".pub")


def secrets_named(text: str) -> Iterator[FactNote]:
    """Secrets that a text names, wherever it does: variables by their names, files by theirs."""
    for name in dict.fromkeys(_VARIABLE.findall(text)) if "$" in text else ():
        if name not in _FINE and may_name(name, SECRET_NAMES):
            yield FactNote(CommandFact.CREDENTIALS, f"${name}")
    if "." in text or _SECRET_PATH.search(text) is not None:
        for word in dict.fromkeys(_APART.split(text)):
            if ("/" in word or "AKIA" in word or word.startswith((".", "*", "id_"))) and is_secret_path(word):
                yield FactNote(CommandFact.CREDENTIALS, word)


# --- Downloads -------------------------------------------------------------------------------------------------------

SQL_CLIENTS = frozenset(
    _any(
        "psql pgcli mysql mariadb mycli sqlite3 duckdb mongo mongosh cqlsh clickhouse clickhouse-client snowsql sqlcmd",
        "sqlplus cockroach usql redis-cli valkey-cli influx cypher-shell beeline hive presto trino bq",
    ).split("|")
)
FETCHERS = frozenset(["curl", "wget", "fetch", "aria2c", "http", "https", "xh"])
INTERPRETERS = frozenset(
    [*SHELLS, "python", "python2", "python3", "node", "perl", "ruby", "php", "deno", "bun", "tclsh"]
)
_EVALUATING = INTERPRETERS | {"eval", "source", "."}


def runs_input(words: Words) -> bool:
    """Whether a program in a pipe runs what comes through it."""
    name, rest = str(words[0]), words[1:]
    if name in SHELLS:
        return "-s" in rest or all(word is None or word.startswith("-") for word in rest)
    return name in INTERPRETERS and all(word == "-" for word in rest)


def runs_unknown(words: Words) -> bool:
    """Whether an interpreter gets something that is only known when it runs."""
    return str(words[0]) in _EVALUATING and any(word is None or word.startswith("/dev/fd/") for word in words[1:])


def runs_hidden(words: Words) -> bool:
    """Whether a shell or an interpreter gets a text that is only known when it runs."""
    name, rest = str(words[0]), words[1:]
    if name == "eval":
        return None in rest
    if name in SHELLS:
        script = next((word for word in rest if word is None or not word.startswith("-")), "")
        return script is None
    texts = (rest[at + 1 : at + 2] for at, word in enumerate(rest) if word in ("-c", "-e", "--eval", "-E", "-r"))
    return name in INTERPRETERS and any(text == (None,) for text in texts)


def may_run(words: Words) -> Words:
    """The words of a command that may be files it runs, or makes runnable."""
    return words if words[0] in _EVALUATING or words[0] in ("chmod", "sudo") else words[:1]


def fetched_files(words: Sequence[str | None]) -> Iterator[str]:
    """The files that a command which fetches something leaves behind."""
    for at, word in enumerate(words):
        if word in ("-o", "--output", "-O", "--output-document") and at + 1 < len(words):
            after = words[at + 1]
            if after is not None and not after.startswith(("-", "http")):
                yield after
        elif word is not None and word.startswith(("http://", "https://")):
            yield word.rpartition("/")[2].partition("?")[0]
