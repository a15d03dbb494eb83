"""No diagnostic quotes a line of a private key, whatever it is about and in whichever form."""

import base64
import itertools

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import etcompile
from etcompile.cli import check
from etcompile.diagnostics import Location, diagnose
from etcompile.diagnostics.redaction import redacted, secret_spans
from etcompile.load import load

FORMS = ("text", "json", "sarif", "github", "rdjson")


def pem(key, form) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain).decode()


def keys() -> dict[str, str]:
    small = rsa.generate_private_key(65537, 2048)
    curve = ec.generate_private_key(ec.SECP256R1())
    private = serialization.PrivateFormat
    ssh = pem(ed25519.Ed25519PrivateKey.generate(), private.OpenSSH)
    body = "\n".join(ssh.splitlines()[1:-1])
    pgp = "-----{} PGP PRIVATE KEY BLOCK-----"
    return {
        "PKCS 8": pem(small, private.PKCS8),
        "PKCS 1": pem(small, private.TraditionalOpenSSL),
        "EC": pem(curve, private.TraditionalOpenSSL),
        "OpenSSH": ssh,
        "PGP": f"{pgp.format('BEGIN')}\n\n{body}\n{pgp.format('END')}\n",
        "PuTTY": f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{body}\nPrivate-MAC: 00\n",
        "cut short": "".join(ssh.splitlines(keepends=True)[:-2]),
    }  # fmt: skip


KEYS = keys()


def ways(key: str) -> dict[str, str]:
    """The key as the value of `k` in a file."""
    encoded = base64.b64encode(key.encode()).decode()
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    return {
        "a block": "k: |\n" + "".join(f"  {line}\n" for line in key.splitlines()),
        "no block": "k:\n" + "".join(f"{line}\n" for line in key.splitlines()),
        "one line": f"k: {key!r}\n".replace("'", '"'),
        "base64": f"k: {encoded}\n",
        "lines of base64": "k: |\n" + "".join(f"  {line}\n" for line in lines),
        "quoted lines of base64": 'k: "' + "\\\n  ".join(lines) + '"\n',
        "base64 of base64": f"k: {base64.b64encode(encoded.encode()).decode()}\n",
    }


CASES = {
    f"{kind}, {way}": (key, text)
    for kind, key in KEYS.items()
    for way, text in ways(key).items()
}  # fmt: skip


def pieces(key: str, text: str) -> set[str]:
    """What of the key a reader must not see: any 16 characters of its lines, or of the file's."""
    body = [one.strip() for one in (*key.splitlines(), *text.splitlines())]
    long = [one for one in body if len(one) > 40 and "KEY" not in one and not one.startswith("k:")]
    return {one[start : start + 16] for one in long for start in range(0, len(one) - 16, 8)}


@pytest.mark.parametrize(("key", "text"), CASES.values(), ids=CASES)
def test_no_line_of_a_private_key_is_quoted(tmp_path, key, text):
    file = tmp_path / "a.yaml"
    head, tail = "apiVersion: v1\nkind: Probe\nmetadata: {name: a}\n", "z: &a [*a, *b]\nz: 1\n"
    for words in (
        head + text + tail,
        text + head,
        head + text.replace("k:", "k:\t"),
        text + "\x01",
    ):
        file.write_text(words)
        shown = {one.location.text for one in load([file]).diagnostics if one.location}
        output = "".join(
            CliRunner().invoke(check.command, [str(file), "--output-format", form]).output
            for form in FORMS
        )
        for piece in pieces(key, text):
            assert piece not in output
            assert not any(piece in one for one in shown if one)


def test_every_line_of_a_key_is_hidden_and_no_other():
    for key, text in CASES.values():
        if "-----END" not in key:
            continue
        whole = f"before: 1\n{text}after: 2\n"
        spans = secret_spans(whole)
        for number, line in enumerate(whole.splitlines(keepends=True)):
            start = sum(len(one) for one in whole.splitlines(keepends=True)[:number])
            hidden = any(start < end and begin < start + len(line) for begin, end in spans)
            assert hidden == (line not in ("before: 1\n", "after: 2\n", "k: |\n", "k:\n")), line


def test_a_message_quotes_none_either():
    key = KEYS["OpenSSH"]
    diagnostic = diagnose(
        "ET5005", Location("a"), option="--x", problem=f"'{key}' is wrong", advice=key
    )
    assert diagnostic.message == "--x: '(hidden)\n' is wrong"
    assert diagnostic.hint == "(hidden)\n"
    assert redacted("HF_TOKEN=sesame-7 python") == "HF_TOKEN=(hidden) python"


def test_ordinary_words_are_as_they_were():
    for words in itertools.chain(
        ["secret=csi: '/a' must hold one SecretProviderClass", "secret: external:vault/ml"],
        ["the private key of a job", "image: a@sha256:" + "0123456789abcdef" * 4],
        ["settings: {secret: existing:Not_A_Name}", "ssh-rsa " + "AAAAB3NzaC1yc2E" * 8],
    ):
        assert redacted(words) == words


@pytest.mark.parametrize("field", ["data", "stringData"])
@pytest.mark.parametrize(
    "value", [{"a": 912345}, "912345x", {"a": ["912345x"]}, {"a b": "912345x"}]
)
def test_no_message_about_a_secret_quotes_its_values(field, value):
    """Nor of one that a program passes, which has no text."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, field: value}
    diagnostics = etcompile.compile([secret]).diagnostics
    assert "ET4002" in {one.code for one in diagnostics}
    assert not any("912345" in f"{one.message}{one.hint}" for one in diagnostics)
