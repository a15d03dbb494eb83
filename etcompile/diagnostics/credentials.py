# ruff: noqa: E501 - a row a form
"""Find credentials and private keys in any text, by their form or by the name of a field.

The forms are those of Yelp's detect-secrets 1.5.0 (Apache-2.0; the plugins of
https://github.com/Yelp/detect-secrets), and of Hugging Face and of GitHub's fine-grained tokens,
which it does not know. That package is not imported, because it contains an HTTP client that asks
the issuers whether a credential is valid. The check of documents and the redaction of messages use
this module.
"""

import base64
import itertools
import re
from collections.abc import Iterator

Span = tuple[int, int]
"""First character, and the one after the last."""

_FORMS = (
    # description, strings of which each match contains one, form
    ("an AWS access key", ("AKIA", "ASIA", "ABIA", "A3T"), r"\b(?:A3T[A-Z0-9]|ABIA|AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("an Artifactory token", ("AKC",), r"(?:(?<=[\s=:\"])|^)AKC[a-zA-Z0-9]{10,}(?=[\s\"]|$)"),
    ("an Azure storage key", ("AccountKey=",), r"AccountKey=[a-zA-Z0-9+/=]{88}"),
    ("a password in a URL", ("://",), r"://[^\s:/?#\[\]@!$&'()*+,;={}<>\"]+:(?P<value>[^\s:/?#\[\]@!$&'()*+,;={}<>\"]+)@"),
    ("a Discord token", (".",), r"\b[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}\b"),
    ("a GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9_]{36}"),
    ("a GitHub token", ("github_pat_",), r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("a GitLab token", ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-"), r"\b(?:glpat|gldt|glft|glsoat|glrt)-[A-Za-z0-9_-]{20,50}(?!\w)"),
    ("a GitLab token", ("GR1348941",), r"GR1348941[A-Za-z0-9_-]{20,50}(?!\w)"),
    ("a GitLab token", ("glcbt-",), r"glcbt-(?:[0-9a-fA-F]{2}_)?[A-Za-z0-9_-]{20,50}(?!\w)"),
    ("a GitLab token", ("glimt-", "glptt-", "glagent-", "gloas-"), r"(?<![\w-])(?:glimt-[A-Za-z0-9_-]{25}|glptt-[A-Za-z0-9_-]{40}|glagent-[A-Za-z0-9_-]{50,1024}|gloas-[A-Za-z0-9_-]{64})(?!\w)"),
    ("a Hugging Face token", ("hf_",), r"\bhf_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{16,}\b"),
    ("a JSON Web Token", ("eyJ",), r"(?<![\w-])eyJ[A-Za-z0-9_-]{8,}={0,2}\.eyJ[A-Za-z0-9_-]{8,}={0,2}\.[A-Za-z0-9_.+/=-]*"),
    ("a Mailchimp key", ("-us",), r"\b[0-9a-z]{32}-us[0-9]{1,2}\b"),
    ("an npm token", (":_authToken=",), r"(?<=/):_authToken=\s*(?P<value>npm_\w+|[A-Fa-f0-9-]{36})"),
    ("an OpenAI key", ("sk-",), r"(?<![\w-])sk-(?=[A-Za-z_-]*\d)(?=[a-z\d_-]*[A-Z]|(?:[a-z\d]+-){0,2}[a-f\d]{32})[\w-]{20,}"),
    ("a PyPI token", ("pypi-AgE",), r"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{70,}"),
    ("a SendGrid key", ("SG.",), r"\bSG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}"),
    ("a Slack token", ("xox",), r"\b(?i:xox[abpors]-(?:\d+-)+[a-z0-9]+)"),
    ("a Slack webhook", ("hooks.slack.com",), r"(?i:https://hooks\.slack\.com/services/T\w+/B\w+/\w+)"),
    ("a Square secret", ("sq0csp-",), r"\bsq0csp-[0-9A-Za-z\\_-]{43}"),
    ("a Stripe key", ("k_live_",), r"\b[rs]k_live_[0-9a-zA-Z]{24}"),
    ("a Telegram token", (":",), r"\b\d{8,10}:[0-9A-Za-z_-]{35}\b"),
    ("a Twilio key", ("AC", "SK"), r"\b(?:AC|SK)[a-f0-9]{32}\b"),
)  # fmt: skip

_WORDS = (
    "TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE"
    "|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY|AUTH_?KEY"
)
_SIGNS = (
    "TOKEN",
    "SECRET",
    "PASSW",
    "PASSPHRASE",
    *(f"{word}{sep}KEY" for word in ("API", "ACCESS", "PRIVATE", "AUTH") for sep in ("", "_")),
)
"""Strings of which every name of a credential contains one, in capitals."""
_VOCABULARY = frozenset(
    {
        *("BOS", "CLS", "END", "EOS", "IMAGE", "MASK", "MAX", "MIN", "NEXT", "NUM", "PAD", "PER"),
        *("SEP", "SPECIAL", "START", "STOP", "UNK"),
    }
)
"""Words before TOKEN in names of a language model's tokens, such as PAD_TOKEN."""

_FORM_OF_SIGN = tuple((sign, number) for number, form in enumerate(_FORMS) for sign in form[1])
"""Each sign with the number of its form."""
_RARE = tuple(sign for _, signs, _ in _FORMS for sign in signs if len(sign) > 2)
"""Signs that few texts contain by chance."""
_MOST_NESTED = 16
"""Names to search for inside the value of another one."""
_LONGEST = 64 * 1024
"""Characters of a value; a longer one is no credential."""

# Patterns are compiled on use, because few runs need all of them; `re` keeps what it compiled.
_NAME = rf"(?i)(?:^|(?<=[_.-]))(?P<word>{_WORDS})$"
_PLACEHOLDER = r"""(?isx)
    (?:true|false|yes|no|on|off|none|null|nil|~|auto|default|file|env)?
    | <.* | [\[(].*[\])]                        # <token>, (hidden)
    | (?:file:|~|\.{0,2})(?:/[\w.@-]+)+/?       # a path
    | \$\w+ | .*(?:\$[({]|\{\{|<[\w\ -]+>).*    # $VAR, $(VAR), {{ .Values.x }}, <token>
    | (.)\1*                                    # xxxx, ****
    | (?:.*[-_\ ])?(?:change[-_\ ]?me|replace[-_\ ]?me|to[-_\ ]?do|tbd|redacted|example
        |placeholder|dummy)(?:[-_\ ].*)?
    | (?:your|insert|enter|put)[-_\ ].*
    | ENC\[.*                                   # SOPS
    """
_HOLDER = rf"(?P<name>[A-Za-z0-9_.-]*(?i:{_WORDS}))(?![\w.-])"
_QUOTE = r"[\"']?"
_PLAIN = r"(?P<value>[^\s\"',;}\]]+)"
_REST = r"(?P<value>[^\n]*(?:\n(?:(?P=in)[ \t]|[ \t]*[\"']?value[\"']?[ \t]*:)[^\n]*)*)"
_NO_VALUES = r"(?:valueFrom|key|optional|image|mountPath|namespace|kind|type)\b"
"""Fields beside a name; any other word may be a misspelt `value`."""
_NAMED = (
    # - name: HF_TOKEN
    #   value: …
    (
        r"(?<!\S)\#[^\n]*+|"  # names in comments do not count
        rf"name{_QUOTE}[ \t]*:[ \t]*{_QUOTE}{_HOLDER}{_QUOTE}[ \t]*+,?[ \t]*+"
        r"(?:\#[^\n]*+)?+(?:\n[ \t]*+\#[^\n]*+)*+"
        rf"\n(?P<in>[ \t]*){_QUOTE}(?!{_NO_VALUES})[A-Za-z]+{_QUOTE}[ \t]*:[ \t]*{_REST}"
    ),
    # - value: …
    #   name: HF_TOKEN
    (
        rf"(?:^|\n)(?>[^\n]*?value{_QUOTE}[ \t]*:)[ \t]*+(?P<value>[^\n]*)\n"
        rf"[ \t]*{_QUOTE}name{_QUOTE}[ \t]*:[ \t]*{_QUOTE}{_HOLDER}{_QUOTE}"
    ),
    # {name: HF_TOKEN, value: …}
    (
        rf"name{_QUOTE}[ \t]*:[ \t]*{_QUOTE}{_HOLDER}{_QUOTE}[ \t]*,[ \t]*"
        rf"{_QUOTE}value{_QUOTE}[ \t]*:[ \t]*{_QUOTE}{_PLAIN}"
    ),
    # HF_TOKEN: … in a ConfigMap, an annotation
    rf"(?:^|\n)(?P<in>[ \t]*)(?:-[ \t]+)?{_QUOTE}{_HOLDER}{_QUOTE}[ \t]*:[ \t]+{_REST}",
    rf"[{{,][ \t]*{_QUOTE}{_HOLDER}{_QUOTE}[ \t]*:[ \t]+{_QUOTE}{_PLAIN}",
    # HF_TOKEN=…, --token=…
    rf"(?<![\w.-]){_HOLDER}={_QUOTE}{_PLAIN}",
    # --token … and [--token, …]
    (
        rf"(?<![\w.-])(?=--){_HOLDER}{_QUOTE}"
        rf"(?:[ \t]*,[ \t]*|[ \t]+|[ \t]*\n[ \t]*-[ \t]+){_QUOTE}{_PLAIN}"
    ),
)
"""Names with their values in files and in commands.

Each takes linear time on any text, because no part is read twice in vain.
"""
_SPOKEN = (
    r"(?i:authorization)[\"']?[ \t]*[:=][ \t]*[\"']?(?:\w+[ \t]+)?(?P<value>[^\s\"',}]+)",
    r"\b(?:Bearer|bearer|BEARER)[ \t]+(?P<value>[\w.~+/=-]{8,})",
    r"\bBasic[ \t]+(?P<value>(?=[a-z]*[A-Z\d+/=])[A-Za-z\d+/]{8,}={0,2})",
    r"(?i:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|[?&]sig)=(?P<value>[^&\s\"'<>]+)",
    (
        rf"(?<![\w.-])(?P<name>[\w.-]*(?i:{_WORDS}))"
        r"\\?[\"']?[ \t]*[=:][ \t]*\\?[\"']?(?P<value>[^\s\"',;}\]]+)"
    ),
)
"""Credentials in a program's output."""


def may_hold_credential(data: bytes) -> bool:
    upper = data.upper()
    return any(sign.encode() in upper for sign in _SIGNS) or any(
        sign.encode() in data for sign in _RARE
    )


def form_of(text: str) -> str | None:
    return next((what for what, _ in _by_form(text)), None)


def is_credential(name: str, value: str) -> bool:
    """Return whether a value is a credential, by the name of what holds it.

    Args:
        name: A variable, an option, an annotation or a key.
        value: Its value, which may be a reference or a placeholder and so no credential.
    """
    if not any(sign in name.upper() for sign in _SIGNS) or len(value) > _LONGEST:
        return False
    match = re.search(_NAME, name)
    if match is None:
        return False
    before = re.split(r"[_.-]+", name[: match.start()].strip("_.-").upper())[-1]
    if match["word"].upper() == "TOKEN" and before in _VOCABULARY:
        return False
    word, value = match["word"].upper(), value.strip()
    if "PASS" not in word and re.fullmatch(r"[-+]?\d{1,6}", value):
        return False  # a count
    # The name of a Secret is no credential: `TLS_SECRET: ingress-certificates`.
    refers = word == "SECRET" and re.fullmatch(r"[a-z]+(?:-[a-z]+)+", value)
    return not refers and re.fullmatch(_PLACEHOLDER, value) is None


def credential_spans(text: str) -> list[Span]:
    spans = [span for _, span in _by_form(text)]
    upper = text.upper()
    for pattern in _NAMED if any(sign in upper for sign in _SIGNS) else ():
        # Not finditer, because the value of one match may contain the next name.
        search = re.compile(pattern).search
        start = end = nested = 0
        while match := search(text, start):
            if match["name"] is None:
                start = match.end()
                continue
            start = max(match.end("name"), match.start() + 1)
            # Each name inside a value starts a search over the rest of that value. After a few the
            # whole value is hidden, so that the time does not grow with the square of the text.
            nested = nested + 1 if match.end("value") == end else 0
            end = match.end("value")
            name, value = match["name"], match["value"].strip().strip("\"'[]{} ")
            # A field named only `secret` or `token`, and our option, refers to a Secret.
            refers = name in ("secret", "token", "--secret")
            value = value.removeprefix("|").removeprefix(">").strip()
            if nested > _MOST_NESTED or (not refers and is_credential(name, value)):
                spans.append(match.span("value"))
                start = max(start, end)
    return spans


def _by_form(text: str) -> Iterator[tuple[str, Span]]:
    # This runs for every message, and `any(...)` takes three times as long as these loops.
    for number in sorted({number for sign, number in _FORM_OF_SIGN if sign in text}):
        what = _FORMS[number][0]
        for match in re.finditer(_FORMS[number][2], text):
            group = "value" if "value" in match.re.groupindex else 0
            yield what, match.span(group)


def spoken_spans(text: str) -> Iterator[Span]:
    """Find credentials in a program's output: in headers, signed URLs, JSON and INI."""
    for pattern in _SPOKEN:
        for match in re.finditer(pattern, text):
            name = match.groupdict().get("name")
            if name is None or is_credential(name, match["value"]):
                yield match.span("value")


# Private keys -------------------------------------------------------------------------------------

# Compiled on use, because nearly no run needs them.
_PRIVATE_KEY = r"-{4,5} ?BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d"
_BASE64 = r"[A-Za-z0-9+/]{16,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/]+)*"
"""A stretch of base64 that may have several lines."""
_DEEPEST = 2
_KEY_END = r"-{4,5} ?END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-(?:MAC|Hash):[^\n]*"
_BASE64_LINES = (
    r"[A-Za-z0-9+/=]{16,}(?:[ \t]*+(?:\\n)?\\?[ \t]*+\r?\n[ \t]*"
    r"[A-Za-z0-9+/=]+(?=[ \t]*(?:[\\\"',\r\n]|\Z)))*"
)
"""The same in a file, including the lines of a quoted text."""


def _in_base64(text: bytes) -> Iterator[bytes]:
    """Yield a text inside base64, at each of its three alignments, without the ends that vary."""
    for before in range(3):
        written = base64.b64encode(b"\0" * before + text)
        start = -(-before * 8 // 6)
        yield written[start : (before + len(text)) * 8 // 6]


_KEY_PLAIN = (b"PRIVATE KEY", b"PuTTY-User-Key-File")
_KEY_ENCODED = tuple(itertools.chain.from_iterable(map(_in_base64, _KEY_PLAIN)))
_KEY_SIGNS = (
    *_KEY_PLAIN,
    *_KEY_ENCODED,
    *itertools.chain.from_iterable(map(_in_base64, _KEY_ENCODED)),
)
"""Every text with a private key contains one of these."""


def private_key_spans(text: str) -> Iterator[tuple[int, int]]:
    """Find private keys in a text; one without an end extends to the end of the text."""
    if not is_suspicious(text.encode(errors="replace")):
        return
    stop = 0
    while begin := re.compile(_PRIVATE_KEY).search(text, stop):
        end = re.compile(_KEY_END).search(text, begin.end())
        stop = end.end() if end else len(text)
        yield begin.start(), stop
    for lines in re.finditer(_BASE64_LINES, text):
        # Part of a key is secret as well, so the sign alone is enough.
        if any(sign in lines[0].encode() for sign in _KEY_SIGNS):
            yield lines.span()


def holds_key(text: str, depth: int = _DEEPEST) -> bool:
    if not is_suspicious(text.encode(errors="replace")):
        return False
    if re.search(_PRIVATE_KEY, text):
        return True
    for run in re.findall(_BASE64, text) if depth else ():
        letters = "".join(run.split())
        for start in range(4):
            whole = letters[start : start + (len(letters) - start) // 4 * 4]
            if holds_key(base64.b64decode(whole).decode("latin-1"), depth - 1):
                return True
    return False


def is_suspicious(text: bytes) -> bool:
    """Return whether a text may contain a private key; False for nearly every text."""
    for sign in _KEY_SIGNS:  # noqa: SIM110 - `any` takes three times as long, and nearly all is short
        if sign in text:
            return True
    return False
