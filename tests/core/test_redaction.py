"""The redactor: every form of a secret, tokens known by their shape, and outputs that come in any chunks."""

import base64
import hashlib
import json
import re
import shlex
import urllib.parse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ordain.core.lint.content import secrets_in
from ordain.core.text.redaction import BLOCK_MAX, BROKEN_MAX, CONTEXT, HIDDEN_MAX, Redactor, hide
from ordain.core.text.redaction import CUT as REST
from ordain.core.text.secret import CREDENTIALS, HEAD_MAX, SHAPES, compiled
from tests.rows import each

SECRET = "hunter2-Äpfel/birnen?<a&b>'c\"$d`e\\f ~g%h+i"
PLAIN = "s3cr3tT0kenValue"
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + ("MIIEpAIBAAKCAQEA" * 4 + "\n") * 5 + "-----END RSA PRIVATE KEY-----"
NAME = "[redacted X_TOKEN]"

values = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40).filter(
    lambda text: len(text.strip()) >= 8 and text not in NAME
)


def redact(text, secret=SECRET):
    return Redactor({"X_TOKEN": secret}).text(text)


def varied(length):
    """A text of so many characters in which nothing comes twice."""
    digests = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(length // 32 + 1))
    return base64.b85encode(digests).decode()[:length]


def in_chunks(redactor, data, sizes):
    """What a stream makes of data in chunks of these sizes, again and again."""
    stream, out, at, turn = redactor.stream(), [], 0, 0
    while at < len(data):
        out.append(stream.feed(data[at : at + sizes[turn % len(sizes)]]))
        at += sizes[turn % len(sizes)]
        turn += 1
    return b"".join((*out, stream.close()))


# --- Forms ---------------------------------------------------------------------------------------------------------


def whole_forms(secret):
    """What real encoders make of a secret."""
    data = secret.encode()
    once = json.dumps(secret)[1:-1]
    return {
        "raw": secret,
        "json": once,
        "json, not only ASCII": json.dumps(secret, ensure_ascii=False)[1:-1],
        "json with slashes escaped": once.replace("/", "\\/"),
        "json in json": json.dumps(once)[1:-1],
        "json for HTML": once.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("'", "\\u0027"),
        "all escaped": "".join(f"\\u{ord(character):04x}" for character in secret),
        "all escaped, upper": "".join(f"\\u{ord(character):04X}" for character in secret),
        "quote": urllib.parse.quote(secret),
        "quote all": urllib.parse.quote(secret, safe=""),
        "quote_plus": urllib.parse.quote_plus(secret),
        "encodeURIComponent": urllib.parse.quote(secret, safe="!*'()"),
        "encodeURI": urllib.parse.quote(secret, safe="!*'();/?:@&=+$,#"),
        "every byte": "".join(f"%{byte:02X}" for byte in data),
        "every byte, lower": "".join(f"%{byte:02x}" for byte in data),
        "hex": data.hex(),
        "hex, upper": data.hex().upper(),
        "hex with colons": data.hex(":"),
        "hex with spaces": data.hex(" "),
        "shlex": shlex.quote(secret),
        "shell, backslash": secret.replace("'", "'\\''"),
        "shell, double": secret.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`"),
        "shell, printf": re.sub(r"[^\w%+./:@~#=-]", r"\\\g<0>", secret).replace("\\\n", "\n"),
        "repr": repr(secret),
        "repr in a longer text": repr(f'it\'s "{secret}"'),
        "repr of bytes": repr(data),
    }


@pytest.mark.parametrize("secret", [SECRET, PLAIN, "just 8ch", "line one of two\nline two of two", "a" * 9 + "'b"])
def test_every_form_is_hidden(secret):
    for form, text in whole_forms(secret).items():
        redacted = redact(f"before ={text}= after", secret)
        assert NAME in redacted, form
        left = redacted.replace("before =", "").replace("= after", "").replace(NAME, "")
        assert len(left) <= len("it's \"\"''''b\\\\"), (form, redacted)


@given(values, st.binary(max_size=7), st.binary(max_size=7))
@example(SECRET, b"user:", b"")
@example("??>>~~??>>~~", b"", b"")
@example("\udcff\udcfe\udc80secret", b"", b"x")
def test_base64_is_hidden_wherever_the_secret_stands_in_it(secret, before, after):
    data = before + secret.strip().encode("utf-8", "surrogateescape") + after
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(data).decode()
        redacted = redact(encoded, secret)
        assert NAME in redacted
        # At each end, two characters more than the surroundings need: those that hold bits of both.
        assert len(redacted.replace(NAME, "")) <= -(-len(before) * 4 // 3) + -(-len(after) * 4 // 3) + 5


@pytest.mark.parametrize("width", [1, 2, 3, 13, 64, 76])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\\n", "\n    "])
def test_base64_with_breaks_is_hidden(width, line_break):
    if 2 * width < len(line_break) * 2:
        return
    encoded = base64.b64encode(b"x" * 50 + SECRET.encode() + b"x" * 50).decode()
    broken = line_break.join(encoded[at : at + width] for at in range(0, len(encoded), width))
    assert redact(broken).count(NAME) == 1


SPLIT = "Tr0ub4dor&3-correct/horse+battery"
APART = ["\n", "\r\n", " ", "\t", "\\n", "\r", "\n    ", "\u00ad", "\u200b", "\ufeff", "\u2060", "\b", "\0", "\\u200b"]
APART += ["\x1b[31m", "\x1b[0m\n\x1b[1;31m", "\x1b[01;31m\x1b[K", "\\u001b[31m", "\\x1b[0m", "\\033[32m", ": "]

APART += [
    *"\u00a0\u2009\u3000\u2028\u0085\u2061\u2064\ufe00\ufe0f\U000e0100\U000e0041\u034f\u180e\u061c\u202e\u2066\u206f"
]
APART += [*"\u115f\u1680\u17b4\u2800\u3164\uffa0\U0001d173\x07\x7f\x1b", "\x1b7", "\x1b(B\x1b[m", "\x1b[>1u", "\x9b31m"]
APART += ["\x1b[38;2;100;100;100;48;2;200;200;200m", "\x1b]8;;https://a.example\x1b\\", "\x1b]0;a title\x07"]
APART += ["\\\n", "\\\r\n  "]
APART += ["\\E[31m", "^[[31m", "^[(B", "\\u00a0", "\\u202e", "\\xa0", "\\u001b]8;;x\\u0007", "\\udb40\\udd00"]


@pytest.mark.part(of=7)
@pytest.mark.parametrize("width", [1, 4, 7, 20])
@pytest.mark.parametrize("apart", APART, ids=ascii)
def test_a_secret_is_found_across_what_is_not_seen(apart, width):
    if len(apart.encode()) * (len(SPLIT) // width) > 3 * len(SPLIT) + 200:
        return
    text = "a " + apart.join(SPLIT[at : at + width] for at in range(0, len(SPLIT), width)) + " b"
    assert redact(text, SPLIT) == f"a {NAME} b"
    for size in (1, 5, 64):
        assert in_chunks(Redactor({"X_TOKEN": SPLIT}), text.encode(), [size]) == f"a {NAME} b".encode()


def test_a_secret_in_a_title_is_found():
    encoded = base64.b64encode(SPLIT.encode()).decode()
    assert NAME in redact(f"\x1b]52;c;{encoded}\x07", SPLIT)
    assert NAME in redact(f"\x1b]0;{SPLIT[:9]} {SPLIT[9:]}\x07", SPLIT)


@pytest.mark.parametrize("width", [76, 80, 120])
def test_a_secret_that_a_program_wraps_is_hidden(width):
    for shift in range(width - len(SPLIT) - 2, width + 2):
        line = "x" * shift + SPLIT + "y" * 100
        wrapped = "\n".join(line[at : at + width] for at in range(0, len(line), width))
        assert redact(wrapped, SPLIT).count(NAME) == 1


@pytest.mark.parametrize("value", ["production", "password", "true", "1", "postgres", "Changeme"])
def test_a_common_word_is_no_secret(value):
    text = f"the {value} of {value}s"
    assert redact(text, value) == text


def test_breaks_without_end_are_no_break():
    encoded = base64.b64encode(SECRET.encode()).decode()
    text = encoded[:20] + " " * 600 + encoded[20:]
    assert redact(text) == text


@given(values, st.text(max_size=20), st.text(max_size=20))
@example("(a+)+$[^\\w]{2,}|.*?\\1", "(", ")")
def test_no_secret_is_left(secret, before, after):
    assert secret.strip() not in redact(before + secret + after, secret).replace(NAME, "\0")


def test_what_is_no_secret_stays_as_it_is():
    redactor = Redactor({"X_TOKEN": SECRET, "SHORT_TOKEN": "seven77"})
    for text in (
        "",
        "seven77",
        "hunter2",
        "a risk-free-and-otherwise-harmless-word",
        "ÄÖ\ud800",
        NAME,
        "https://a:80/b@c",
    ):
        assert redactor.text(text) is text
    data = b"\xff\xfe\x00 plain"
    assert redactor.data(data) is data


def test_a_secret_that_stands_in_what_is_shown_is_none():
    redactor = Redactor({"X_TOKEN": "redacted", "Y_TOKEN": "X_TOKEN]"})
    assert redactor.text("[redacted X_TOKEN] was redacted") == "[redacted X_TOKEN] was redacted"


def test_a_secret_that_contains_what_is_shown():
    secret = f"a{NAME}b"
    assert redact(f"-{secret}-", secret) == f"-{NAME}-"
    assert redact(f"-{NAME}-", secret) == f"-{NAME}-"


def test_secrets_that_overlap_leave_nothing():
    redactor = Redactor({"A": "abcdefghij", "B": "ghijklmnop", "C": "abcdefgh", "D": "abcabcabc"})
    assert redactor.text("-abcdefghijklmnop-") == "-[redacted A]-"
    assert redactor.text("-abcdefgh-") == "-[redacted C]-"
    assert redactor.text("-abcdefghij-ghijklmnop-") == "-[redacted A]-[redacted B]-"
    assert redactor.text("-abcdefghijghijklmnop-") == "-[redacted A][redacted B]-"
    assert redactor.text("-abcabcabcabc-") == "-[redacted D]-"
    assert redactor.text("-abcabcabcabcabcabc-") == "-[redacted D]-"


def test_a_secret_of_many_lines_is_hidden_line_by_line():
    secret = "first line here\n  second line here\nshort\n--------------\n"
    shown = redact("   1: first line here\r\n   2: second line here\r\n   3: short\r\n--------------", secret)
    assert shown == f"   1: {NAME}\r\n   2: {NAME}\r\n   3: short\r\n--------------"
    assert redact(f"<{secret.strip()}>", secret) == f"<{NAME}>"


@each("length", [127, 128, 129, 136, 137, 248, 249, 1000])
def test_a_long_secret_is_hidden_as_a_whole_in_every_form(length):
    secret = varied(length)
    for form, text in whole_forms(secret).items():
        if not form.startswith("repr"):
            assert redact(f"<{text}>", secret).strip("<>'") == NAME, form
    for encoded in (base64.b64encode(secret.encode()).decode(), base64.encodebytes(secret.encode()).decode()):
        assert len(redact(encoded, secret)) <= len(NAME) + 4


def test_the_window_is_as_long_as_the_longest_form():
    assert Redactor({}).window == CONTEXT
    assert Redactor({"X": "x" * 100}).window == BROKEN_MAX
    assert Redactor({"X": "x" * 100_000}).window < 1000


def test_trees():
    redactor = Redactor({"X_TOKEN": PLAIN})
    tree = {"a": [PLAIN, 1, None, True, 1.5], f"k {PLAIN}": {"b": (f"x{PLAIN}",)}}
    assert redactor.value(tree) == {"a": [NAME, 1, None, True, 1.5], f"k {NAME}": {"b": (f"x{NAME}",)}}


# --- Shapes --------------------------------------------------------------------------------------------------------

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
TOKENS = [
    ("AKIAIOSFODNN7EXAMPLE", "a key of AWS"),
    ("ghp_" + "a1B2" * 9, "a token of GitHub"),
    ("ghs_" + "a1B2" * 20, "a token of GitHub"),
    ("github_pat_" + "a1B2_" * 16, "a token of GitHub"),
    ("glpat-" + "a1-_" * 5, "a token of GitLab"),
    ("sk-proj-" + "a1B2-_" * 20, "a key of a model's provider"),
    ("sk-" + "a" * 48, "a key of a model's provider"),
    ("sk-ant-api03-" + "x" * 40, "a key of a model's provider"),
    ("sk-or-v1-" + "0123456789abcdef" * 4, "a key of a model's provider"),
    ("sk-ant-api03-a1-B2_c3-D4_e5-F6_g7-H8", "a key of a model's provider"),
    ("xoxb-1234567890-abcdefghij", "a token of Slack"),
    ("AIza" + "a1B2-" * 7, "a key of Google"),
    (JWT, "a JSON web token"),
    (KEY, "a private key"),
    (KEY.replace("\n", "\\n"), "a private key"),
    (KEY.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"), "a private key"),
]


@pytest.mark.parametrize(("token", "what"), TOKENS)
@pytest.mark.parametrize("before", ["", "=", "\x1b[32m", "\\n", "%3D", "\\u003d", '"'])
def test_well_known_tokens_are_hidden(token, what, before):
    assert Redactor({}).text(f"a {before}{token}") == f"a {before}[redacted {what}]"
    assert Redactor({}).text(f'a {before}{token}" b') == f'a {before}[redacted {what}]" b'


ORDINARY = [
    "",
    "du-sk-find-name-cache-type-d-print add-the-sk-locale-strings-to-the-bundle sk-locale-strings-and-other-things",
    "sk-2024-report-for-the-month-of-july sk-SK_translations.po sk-learn-pipelines-and-other-models",
    "risk-assessment-of-the-whole-building task-with-a-very-long-name-indeed desk-lamp-and-chair-for-the-office",
    "sk-internationalization-of-the-app sk-build-2024-11-18-nightly-release disk-sk-usage-of-every-directory",
    "ghp_ ghp_short github_pat_ glpat-short xoxb-short AKIA AKIASHORT ASIA-PACIFIC AIza eyJ eyJhbGciOiJIUzI1NiJ9",
    "src/sk-find/main.py ./scripts/sk-deploy-to-production-and-notify-everybody.sh KEYBOARD",
    "TOKENIZERS_PARALLELISM=false",
    "https://example.org:8080/a@b git@example.org:a/b mailto:kim@example.org file:///etc/passwd 127.0.0.1:5432",
    "PATH=/usr/local/bin:/usr/bin AUTHOR=Kim COMPASS=north SSH_AUTH_SOCK=/run/agent",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "d41d8cd98f00b204e9800998ecf8427e sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "run-the-sk-migration-for-slovakia-and-check-it sk-create-table-users-with-indexes",
    "skip-this-step-when-nothing-changed",
    "ask-for-approval-before-the-deployment mask-the-output-of-the-command sk-a-b-c-d-e-f-g-h-i-j-k-l-m-n-o-p",
    "-----BEGIN CERTIFICATE----- Authorization: required Authorization: Bearer $TOKEN",
    "basket-ball-court-reservation-system",
    "cat locale/sk-SK-2024-Translations-Final.json ls sk-learn-0-3-0-py3-none-any-Build42",
    "kubectl logs sk-Frontend-7d9f8b6c5d-x2k4j sk-Internationalization-2024-Final sk-or-2024-report-for-july",
    "curl https://user:{password}@example.com https://user:{{ password }}@example.com https://u:%(pass)s@example.com",
    "",
]


@each("line", ORDINARY)
def test_ordinary_words_paths_and_ids_are_no_tokens(line):
    assert Redactor({}).text(line) is line
    assert list(secrets_in(line.encode(), {})) == []


def test_a_known_secret_is_shown_by_its_name_and_not_by_its_shape():
    assert redact(f"{TOKENS[1][0]},", TOKENS[1][0]) == f"{NAME},"


@each(
    "text, shown",
    [
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [redacted the credentials of a request]"),
        (
            "> authorization: Basic dXNlcjpwYXNz==\r\n",
            "> authorization: Basic [redacted the credentials of a request]\r\n",
        ),
        ('{"Authorization": "token abcdefgh"}', '{"Authorization": "token [redacted the credentials of a request]"}'),
        ("AUTHORIZATION: 0123456789abcdef", "AUTHORIZATION: [redacted the credentials of a request]"),
        ("Authorization: Bearer $TOKEN", "Authorization: Bearer $TOKEN"),
        ("Authorization: required", "Authorization: required"),
        ("https://me:pass@example.org/a", "https://me:[redacted the password in an address]@example.org/a"),
        ("redis://:p@ss:w@localhost", "redis://:[redacted the password in an address]@localhost"),
        ("https://me:$PASS@example.org", "https://me:$PASS@example.org"),
        ("https://me:${PASS}@example.org", "https://me:${PASS}@example.org"),
        ("https://me:$PASSw0rd!@example.org", "https://me:[redacted the password in an address]@example.org"),
        ("https://example.org:8080/a@b", "https://example.org:8080/a@b"),
        ("git@example.org:a/b", "git@example.org:a/b"),
    ],
)
def test_credentials_are_hidden_and_references_are_not(text, shown):
    assert Redactor({}).text(text) == shown
    assert Redactor({}).text(shown) == shown


def test_a_private_key_without_an_end_is_hidden_as_far_as_it_looks_like_one():
    begun = KEY.rpartition("\n")[0]
    assert Redactor({}).text(f"{begun}\nMIIabc") == "[redacted a private key]"
    assert Redactor({}).text(f"{begun}\n\nThe end. And more.") == "[redacted a private key] end. And more."
    header = begun.replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n")
    assert Redactor({}).text(header) == "[redacted a private key]"
    quoted = begun.replace("\n", '\\n" +\n    "')
    assert Redactor({}).text(quoted) == "[redacted a private key]"


def test_a_mere_mention_of_a_private_key_hides_nothing_more():
    line = "-----BEGIN PRIVATE KEY-----"
    assert Redactor({}).text(f"grep '{line}' *; grep '{line}'") == (
        "grep '[redacted a private key]' *; grep '[redacted a private key]'"
    )
    far = f"{line} is the first line." + " " * BLOCK_MAX + "-----END PRIVATE KEY-----"
    assert Redactor({}).text(far).startswith("[redacted a private key] is the first line. ")


def test_no_head_is_longer_than_the_longest():
    longest = f"eyJ{'a' * 1000}.eyJ{'a' * 4000}.{'a' * 8}".encode()
    assert len(longest) < HEAD_MAX
    assert any(compiled(shape.head).fullmatch(longest) for shape in SHAPES)
    address = f"://{'u' * 200}:{'p' * 200}@".encode()
    assert len(address) < CONTEXT
    assert any(compiled(shape.head).fullmatch(address) for shape in CREDENTIALS)


COLOURED = "\x1b[0m\n\x1b[31m".join((PLAIN[:5], PLAIN[5:9], PLAIN[9:]))

# --- Chunks --------------------------------------------------------------------------------------------------------

KNOWN = {
    "A_TOKEN": PLAIN,
    "B_TOKEN": SECRET,
    "C_TOKEN": "T0kenValueMore",
    "P_TOKEN": "ababababab",
    "F": "one line\ntwo lines",
}
REDACTOR = Redactor(KNOWN)
FRAGMENTS = [
    *(secret.encode() for secret in KNOWN.values()),
    *(base64.encodebytes(b"ab" + secret.encode()) for secret in KNOWN.values()),
    *(token.encode() for token, _ in TOKENS),
    *(b"Authorization: Bearer ", b"://", b":", b"@", b"-----BEGIN PRIVATE KEY-----\n", b"-----END PRIVATE KEY-----"),
    *(
        b"sk-",
        b"ab" * 500,
        b"A" * 700,
        b"A" * 9000,
        b" " * 600,
        b"word " * 1200,
        b"\\",
        b"n",
        b"\x1b[3",
        b"2m",
        b"\n",
        b"\xff",
    ),
    *(b"A" * 66_000, b". " * 20_000),
]
outputs = st.lists(
    st.sampled_from(FRAGMENTS)
    | st.binary(max_size=5)
    | st.sampled_from(FRAGMENTS).map(lambda part: part[: len(part) // 2]),
    max_size=25,
).map(b"".join)
chunk_sizes = st.lists(st.sampled_from([1, 2, 7, 100, 511, 4096, 5101, 20_000, 65_536]), min_size=1, max_size=4)


@given(outputs, chunk_sizes)
@example((b"-----BEGIN PRIVATE KEY-----\n" + b"A" * 64 + b"\n") * 3000, [65_536])
@example(b"sk-" * 30_000, [4096])
@example(b"ghp_" + b"a" * 40_000 + PLAIN.encode() + b"-", [5101])
@example(b"word " * 2000 + b"https://" + b"u" * 190 + b":" + b"p" * 190 + b"@x" + b" word" * 2000, [1])
def test_chunks_make_no_difference(output, sizes):
    assert in_chunks(REDACTOR, output, sizes) == REDACTOR.data(output)


@pytest.mark.part(of=20)
@pytest.mark.parametrize(
    "fragment", [PLAIN, SECRET, COLOURED, *(token for token, _ in TOKENS), f"https://{'u' * 150}:passpass@x"]
)
def test_no_border_between_chunks_lets_a_secret_through(fragment):
    held = max(REDACTOR.window, HEAD_MAX)
    for shift in {*range(-1, len(fragment), 1 + len(fragment) // 50), *range(len(fragment) - 2, len(fragment) + 2)}:
        secret = fragment.encode()
        for border in (held, 2 * held):  # what is held back begins at the one, and the next chunk at the other
            output = secret + b"." * (border - shift - len(secret)) + secret + b"." * 2 * held
            assert in_chunks(REDACTOR, output, [2 * held]) == REDACTOR.data(output)


def test_a_stream_lets_through_what_is_sure_and_holds_back_no_more_than_a_key():
    stream = REDACTOR.stream()
    held = max(REDACTOR.window, HEAD_MAX)
    assert stream.feed(b"." * 100_000) == b"." * (100_000 - held)
    stream.feed(b"-----BEGIN PRIVATE KEY-----\n" + b". " * (BLOCK_MAX // 2 - 2 * held))
    assert b"redacted" not in stream.feed(b"." * held)
    assert b"[redacted a private key]" in stream.feed(b"." * 10 * held)


# --- The end of an output ------------------------------------------------------------------------------------------


@given(outputs, st.integers(0, 5000))
@example(KEY.encode() * 500 + b"a", 4000)
@example(b"sk-" + b"a" * 100_000 + b" word" * 500, 2600)
@example("ä".encode() * 100_000, 5000)
def test_the_tail_of_a_whole_output_is_the_end_of_it_redacted(output, limit):
    redacted = REDACTOR.data(output).decode("utf-8", "replace")
    assert REDACTOR.tail(output, limit, whole=True) == (redacted[-limit:] if limit else "")


def test_of_a_long_line_without_its_beginning_the_end_is_shown():
    line = b"x" * (BLOCK_MAX + REDACTOR.window)
    assert REDACTOR.tail(line, 4000, whole=False) == ""
    assert REDACTOR.tail(line + b"END", 4000, whole=False) == "END"
    assert REDACTOR.tail(line + b"x\nEND", 4000, whole=False) == "x\nEND", "also where more follows it"


@each("more", [b"", b"\nend\n"])
def test_in_a_long_line_no_part_of_a_secret_is_shown_wherever_it_is_cut(more):
    line = b"x" * (2 * BLOCK_MAX)
    for after in range(3990 - len(PLAIN), 4005):
        shown = REDACTOR.tail(line + PLAIN.encode() + b"y" * after + more, 4000, whole=False)
        assert len(shown) == 4000 and not any(PLAIN[at : at + 4] in shown for at in range(len(PLAIN) - 3)), after
    ends = b"y" * REDACTOR.window + line + more
    assert "T" not in REDACTOR.tail(
        b"T" * len(PLAIN) + ends, 1 << 20, whole=False
    )  # the rest of one, at the very beginning


LONG = varied(120)
CUT = {
    **whole_forms(LONG),
    "base64": base64.encodebytes(LONG.encode()).decode(),
    "header": "Authorization: Bearer " + "a1b2c3d4" * 200,
    "address": f"https://{'n' * 150}:{'p' * 150}@example.org",
    "a long JSON web token": JWT + "aB3_" * 2000,
    "a key": KEY.partition("\n")[2].rpartition("\n")[0] * 30,
    "an escaped key": (KEY.partition("\n")[2].rpartition("\n")[0] * 30).replace("\n", "\\n"),
    "a quoted key": '  "MIIEpAIBAAKCAQEA\\n"\n' * 100 + '  "-----END RSA PRIVATE KEY-----',
    **dict(TOKENS[:9]),
}


@each("secret", CUT.values(), ids=CUT)
def test_a_secret_that_lost_its_beginning_is_not_shown(secret):
    redactor = Redactor({"X_TOKEN": LONG})
    data = f"{secret}\nThat was all.\n".encode() + b"Nothing more is said.\n" * 40
    known = {secret[at : at + 8] for at in range(len(secret) - 7)}
    for cut in range(1, len(secret) - 8, 1 + len(secret) // 300):
        shown = redactor.tail(data[cut:], 1 << 20, whole=False)
        assert shown.endswith("Nothing more is said.\n")
        assert known.isdisjoint(shown[at : at + 8] for at in range(len(shown))), cut


def test_the_tail_of_a_cut_output_shows_the_rest():
    output = b"x" * 10_000 + b"\n" + b"word " * 2000 + PLAIN.encode()
    tail = REDACTOR.tail(output[-4096 - REDACTOR.window :], 4096, whole=False)
    assert len(tail) >= 4000
    assert tail.endswith("word word [redacted A_TOKEN]")


def test_a_key_that_lost_its_first_line_is_not_shown():
    body = "\n".join(["MIIEpAIBAAKCAQEA" * 4] * 400)
    assert "MIIE" not in REDACTOR.tail(f"{body}\n-----END PRIVATE KEY-----\nafter".encode(), 4096, whole=False)
    assert REDACTOR.tail(body.encode(), 4096, whole=False) == ""
    assert REDACTOR.tail(f"{body}\nafter".encode(), 4096, whole=False) == "\nafter"


# --- Outputs that are still being written ----------------------------------------------------------------------------


def told(redactor, data, limit=1000):
    return redactor.so_far(data, limit, whole=True)


@pytest.mark.part(of=5)
@pytest.mark.parametrize("secret", [SECRET, PLAIN, "line one of two\nline two of two", varied(140), "Zm9vYmFyYmF6" * 3])
def test_the_beginning_of_a_secret_is_not_shown_before_its_end_has_come(secret):
    redactor = Redactor({"X_TOKEN": secret})
    forms = {name: form for name, form in whole_forms(secret).items() if not name.startswith("repr")}
    for form in forms.values():
        for before in ("", "the word is ", "a\n"):
            for end in range(5, len(form) + 1):
                shown = told(redactor, (before + form[:end]).encode())
                assert form[:5] not in shown, (form, end)
                assert shown.startswith(before.strip())


@each("token", [token for token, what in TOKENS if what != "a private key"])
def test_the_beginning_of_a_well_known_token_is_not_shown(token):
    redactor = Redactor({})
    begin = max(len(begin) for shape in SHAPES for begin in shape.begins if token.startswith(begin.decode()))
    for end in range(begin, len(token) + 1):
        assert token[: begin + 1] not in told(redactor, f"token: {token[:end]}".encode())
        assert told(redactor, f"token: {token[:end]}".encode()).startswith("token: ")


@pytest.mark.parametrize("text", [f"Authorization: Bearer {PLAIN}", f"https://kim:{PLAIN}@example.com/"])
def test_the_beginning_of_credentials_is_not_shown(text):
    for end in range(text.index(PLAIN) + 1, len(text) + 1):
        assert PLAIN[:2] not in told(Redactor({}), f"> {text[:end]}".encode())


def test_no_line_of_a_private_key_is_shown_before_its_last_has_come():
    for end in range(40, len(KEY)):
        assert "MIIE" not in told(Redactor({}), f"before\n{KEY[:end]}".encode())
    assert told(Redactor({}), f"before\n{KEY}\nafter".encode()).endswith("\nafter")


def test_half_a_character_is_not_shown():
    data = "naïve 界 😀".encode()
    for end in range(len(data) + 1):
        assert "\ufffd" not in told(Redactor({}), data[:end])
    assert told(Redactor({}), data) == "naïve 界 😀"
    assert told(Redactor({}), b"not UTF-8: \xff\xfe.") == "not UTF-8: \ufffd\ufffd."


def test_what_is_no_secret_is_shown_as_it_comes():
    redactor = Redactor({"X_TOKEN": PLAIN})
    for text in ("..........", "done", "12% [====>    ]", "s3c", "https://example.com/ and more\n", "sk", "Password: "):
        assert told(redactor, text.encode()) == text


@given(st.binary(max_size=300), st.integers(1, 50))
def test_whatever_came_can_be_told(data, limit):
    assert len(Redactor({"X_TOKEN": SECRET}).so_far(data, limit, whole=False)) <= limit


# --- Beginnings ------------------------------------------------------------------------------------------------------


@given(before=st.text(max_size=300), after=st.text(max_size=300), token=st.booleans())
def test_the_beginning_of_all_of_it_is_what_is_made_of_it(before, after, token):
    redactor = Redactor({"X_TOKEN": PLAIN})
    data = (before + ("ghp_" + "0aZ9" * 9 if token else PLAIN) + after).encode("utf-8", "surrogatepass")
    shown, hidden = redactor.beginning(data, whole=True)
    assert (shown, hidden) == (redactor.data(data), shown.count(b"[redacted "))


@pytest.mark.parametrize("secret", [PLAIN, KEY, "ghp_" + "0aZ9" * 9, base64.b64encode(PLAIN.encode()).decode()])
@pytest.mark.parametrize("missing", [1, 5, 11])
def test_of_a_beginning_no_half_of_a_secret_is_shown(secret, missing):
    redactor = Redactor({"X_TOKEN": PLAIN, "Y_KEY": KEY})
    filler = "word " * 8000
    shown, hidden = redactor.beginning((filler + secret[:-missing]).encode(), whole=False)
    assert hidden == 0 and filler.startswith(shown.decode()) and len(shown) >= len(filler) - redactor.ahead


# --- What is recorded with an output, for readers who do not know its secrets -----------------------------------------


@given(
    st.lists(st.sampled_from([PLAIN, KEY, "ghp_" + "a1B2" * 9, " ", "x", "words ", "\n"]), max_size=30),
    st.integers(1, 4000),
    st.integers(1, 50),
)
def test_recorded_spans_hide_what_the_recorder_hid_in_whatever_parts_it_comes(pieces, recorded_in, shown_in):
    redactor, data = Redactor({"X_TOKEN": PLAIN}), "".join(pieces).encode()
    hidden = redactor.hidden([data[at : at + recorded_in] for at in range(0, len(data), recorded_in)], whole=True)
    shown = b"".join(hide([data[at : at + shown_in] for at in range(0, len(data), shown_in)], hidden))
    assert shown == redactor.data(data)


def test_too_many_spans_become_one_that_hides_more():
    redactor, data = Redactor({"X_TOKEN": PLAIN}), f"{PLAIN} between ".encode() * (HIDDEN_MAX + 50) + b"end"
    hidden = redactor.hidden([data], whole=True)
    assert len(hidden) == HIDDEN_MAX
    shown = b"".join(hide([data], hidden))
    assert PLAIN.encode() not in shown and shown.endswith(b" between end")


def test_the_rest_of_a_secret_whose_beginning_is_missing_is_hidden_for_every_reader():
    long = varied(3000)
    redactor = Redactor({"X_TOKEN": long})
    end = f"{long[1000:]}\nplain end".encode()
    hidden = redactor.hidden([end], whole=False)
    shown = b"".join(hide([end], hidden))
    assert shown.startswith(f"[redacted {REST}]".encode())
    assert not any(long[at : at + 20].encode() in shown for at in range(2980))


def test_a_redactor_learns_what_was_hidden_before():
    knowing = Redactor({"X_TOKEN": PLAIN}).knowing({"another secret": "OTHER"})
    assert knowing.text(f"{PLAIN} and another secret") == f"{NAME} and [redacted OTHER]"
