"""Secrets of the surroundings: variables and files."""

import os

import pytest

from tests.words import DEFAULTS, FILE_BYTES_MAX, collect, is_secret_variable

PATTERNS = ("*_TOKEN", "*_KEY", "*_SECRET")


def in_file(tmp_path, text, name="secrets"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    secrets, unread = collect({}, (), [str(path)], tmp_path)
    assert unread == []
    return {key.removeprefix(f"file:{path}"): value for key, value in secrets.items()}


def test_variables_are_secret_by_their_names(tmp_path):
    env = {
        "A_TOKEN": "a" * 8,
        "B_KEY": "b" * 7,
        "TOKEN": "c" * 8,
        "a_token": "d" * 8,
        "C_SECRET": "e\n" * 8,
        "X": "f" * 9,
    }
    assert collect(env, PATTERNS, (), tmp_path) == (
        {"A_TOKEN": "a" * 8, "a_token": "d" * 8, "C_SECRET": "e\n" * 8},
        [],
    )
    assert collect(env, ("X", "?_TOKEN"), (), tmp_path)[0].keys() == {"X", "A_TOKEN", "a_token"}
    assert collect(env, (), (), tmp_path) == ({}, [])


def test_only_white_space_is_no_secret(tmp_path):
    assert collect({"A_TOKEN": " " * 20}, PATTERNS, (), tmp_path) == ({}, [])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=plain-value", "plain-value"),
        ("export A=plain-value", "plain-value"),
        ("  A = plain value ", "plain value"),
        ("A=plain-value # for the tests", "plain-value"),
        ("A=plain#value", "plain#value"),
        ("A=#plain-value", "#plain-value"),
        ("A=with=equals=signs", "with=equals=signs"),
        ("A='single # quoted'", "single # quoted"),
        ('A="double # quoted"', "double # quoted"),
        ('A="double quoted" # why', "double quoted"),
        ('A="an \\"escaped\\" one\\nmore"', 'an "escaped" one\nmore'),
        ("A='not\\nescaped'", "not\\nescaped"),
        ('A="first line\nsecond line"', "first line\nsecond line"),
        ("A=plain-value\r", "plain-value"),
        ("# a comment\n\nA=plain-value\n# another", "plain-value"),
    ],
)
def test_variables_in_a_file(tmp_path, line, value):
    assert in_file(tmp_path, line + "\n") == {":A": value}


def test_several_variables_and_short_ones(tmp_path):
    text = "\ufeffHOST=short\nPASSWORD='correct horse'\nEMPTY=\nURL=https://example.org\n"
    assert in_file(tmp_path, text) == {":PASSWORD": "correct horse", ":URL": "https://example.org"}


def test_logins(tmp_path):
    text = "machine a.example login me password first-one\nmachine b.example\n  login me\n  password second-one\n"
    assert in_file(tmp_path, text, ".netrc") == {":1": "first-one", ":2": "second-one"}


@pytest.mark.parametrize(
    "text", ["a-single-token", "c2VjcmV0LXRva2Vu=", "QUJDREVGRw==", "first line\nsecond line", "a password of words"]
)
def test_any_other_file_is_one_secret(tmp_path, text):
    assert in_file(tmp_path, f"\n{text}\n") == {"": text}


def test_what_is_not_understood_makes_all_of_a_file_secret(tmp_path):
    text = "A=plain-value\nsomething else that is here"
    assert in_file(tmp_path, text) == {":A": "plain-value", "": text}


def test_bytes_that_are_no_text_are_kept(tmp_path):
    assert in_file(tmp_path, b"\xff\xfe\x80secret") == {"": "\udcff\udcfe\udc80secret"}


def test_the_home_directory_and_files_that_cannot_be_read(tmp_path):
    (tmp_path / "token").write_text("from-the-home\n")
    (tmp_path / "large").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    (tmp_path / "full").write_bytes(b"x" * FILE_BYTES_MAX)
    os.mkfifo(tmp_path / "pipe")
    bad = ["token", "~token", "~/missing", "~/large", "~/pipe", "~", "", "/\0", str(tmp_path)]
    secrets, unread = collect({}, PATTERNS, ["~/token", "~/full", *bad], tmp_path)
    assert secrets == {"file:~/token": "from-the-home", "file:~/full": "x" * FILE_BYTES_MAX}
    assert unread == bad


SECRET_ONES = [
    "DB_PASSWORD", "PGPASSWORD", "GH_PAT", "MYSQL_PWD", "GITHUB_TOKEN", "TOKEN", "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY", "CLIENT_SECRET", "SECRET_KEY_BASE", "ROOT_PASSWD", "SSH_PASSPHRASE", "SMTP_PASS",
    "DOCKER_AUTH", "SESSION_COOKIE", "AZURE_CREDENTIALS", "db_password", "npm_config_token", "ORDAIN_APIKEY",
    "SSHPASS", "DBPASS", "PGPASS", "PAT", "DB_PW", "LDAP_BINDPW", "API_KEY_PROD", "GITHUB_TOKEN_RO", "TOKEN_GITHUB",
    "PRIVATEKEY", "JWT",
]  # fmt: skip
ORDINARY_ONES = [
    "KEYBOARD", "TOKENIZERS_PARALLELISM", "PATH", "AUTHOR", "COMPASS", "SSH_AUTH_SOCK", "PWD", "OLDPWD", "BYPASS",
    "KEYS", "MONKEY", "GIT_AUTHOR_NAME", "PATTERN", "HOME", "LANG", "VIRTUAL_ENV", "PGPASSFILE", "XAUTHORITY",
    "TURKEY", "PASSES",
]  # fmt: skip


def test_the_names_that_are_secret_by_default(tmp_path):
    value = "not-so-common-a-value"
    found, _ = collect(dict.fromkeys((*SECRET_ONES, *ORDINARY_ONES), value), DEFAULTS.secret_env, (), tmp_path)
    assert found == dict.fromkeys(SECRET_ONES, value)
    assert all(is_secret_variable(name, DEFAULTS) for name in SECRET_ONES)
    assert not any(is_secret_variable(name, DEFAULTS) for name in ORDINARY_ONES)


def test_what_is_common_short_or_only_a_place_is_no_secret(tmp_path):
    env = {
        "A_TOKEN": "production",
        "B_TOKEN": "true",
        "C_KEY": "1",
        "D_CREDENTIALS": str(tmp_path),
        "E_KEY": "/no/such/file",
    }
    assert collect(env, DEFAULTS.secret_env, (), tmp_path)[0] == {"E_KEY": "/no/such/file"}


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("postgres://app:s3cr%2Ft-pass@db:5432/x", "s3cr/t-pass"),
        ("redis://:longpassword@cache/0", "longpassword"),
        ("host=db user=app password=hunter22x dbname=x", "hunter22x"),
        ("Server=db;User=sa;Password=hunter22x;", "hunter22x"),
        ("postgres://db:5432/x", None),
        ("https://example.org/a:b@c", None),
    ],
)
def test_the_password_in_an_address_is_secret_under_any_name(value, secret, tmp_path):
    found = collect({"DATABASE_URL": value}, DEFAULTS.secret_env, (), tmp_path)[0]
    assert found == ({"DATABASE_URL": secret} if secret is not None else {})
