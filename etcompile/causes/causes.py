"""Name the cause of an exit code, a reason and the last lines of output.

Facts come before texts. What Kubernetes reports counts first, then the signal, then the last words
of the program: the traceback that ended it, or a known text after which it wrote nothing more. The
texts and their meaning are rows of `causes.yaml`. Each cause says whose fault it is: `etcompile
why` uses that to find the first cause, and the watcher to find bad nodes.

A program may log an error and go on, and a process that loses its peer also dies of an error. So an
error counts only if nothing but known epilogues follows it, and of several processes that died
together, the one that lost no peer counts. If that leaves nothing, the cause is unknown.
"""

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import Literal

import msgspec
from msgspec import Struct, structs

from etcompile.k8s import pods

Blame = Literal["program", "node", "platform", "peer", "storage", "service", "unknown"]
"""Whose fault it is. `platform`: it was stopped on purpose; `peer`: another rank failed."""


class Cause(Struct, frozen=True):
    """A cause in one word and as the end of a sentence: `ran out of memory`.

    Args:
        line: The line of its output that says so; empty if Kubernetes or the exit code does.
    """

    name: str
    text: str
    blame: Blame
    advice: str = ""
    line: str = ""

    @property
    def is_consequence(self) -> bool:
        return self.blame == "peer"

    @property
    def may_follow(self) -> bool:
        """Return True if it is a consequence whenever something else has failed."""
        may = self.name in ("Connection", "Exception") and self.blame == "unknown"
        return self.is_consequence or may

    @property
    def is_vague(self) -> bool:
        return self.name in ("ExitCode", "Unknown", "Killed", "Terminated", "Aborted")


class Row(Struct, frozen=True):
    """Texts and the cause that they name; the head of `causes.yaml` describes the fields."""

    source: str
    patterns: tuple[str, ...]
    cause: str = ""
    matches: str = ""
    misses: str = ""


class Known(Struct, frozen=True, dict=True):
    """The content of `causes.yaml`."""

    causes: tuple[Cause, ...]
    reasons: Mapping[str, str]
    codes: Mapping[int, str]
    signals: Mapping[str, str]
    more: Mapping[str, tuple[str, ...]]
    waits: Mapping[str, str]
    creates: Mapping[str, str]
    messages: tuple[Row, ...]
    texts: tuple[Row, ...]
    shapes: Mapping[str, Row]
    ignored: tuple[Row, ...]

    @functools.cached_property
    def by_name(self) -> Mapping[str, Cause]:
        return {cause.name: cause for cause in self.causes}


OTHER_NODE_WANTED, PREFLIGHT_FAILED = "PreflightNode", "Preflight"
PROBE_FAILED = "ProbeFailed"
"""The reason of a container that the kubelet ended because of its probe; only Events say so."""
_MOST_LINES = 120
_LONGEST_LINE = 1000
_LONGEST_WORDS = 300
_LONGEST_BOX = 500
_MESSAGE_LINES = 8  # after the line of an exception, that may belong to its message
_BOX = 40  # lines of a message that a launcher puts between two rules
_CONNECTIONS = frozenset(("Connection", "PeerLost", "Unreachable"))
_PROCESS = re.compile(r"\[\[\d{1,9},\d{1,9}\],(\d{1,9})\]")
"""Open MPI's name of a process: its job, and its rank in it."""
_WORDS = re.compile(r"[^\\^$.*+?{}\[\]()|]+")
_LONE = r"\w*-?(?:launcher|master|chief)\b"
"""The end of a Pod's name whose role has one Pod."""
_KNOWN = msgspec.json.Decoder(Known)
SIGNALS = {number.value: number.name for number in Signals}
_CRASHES = frozenset(("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL"))


@functools.cache
def known() -> Known:
    text = Path(__file__).with_name("causes.yaml").read_text("utf-8")
    return _KNOWN.decode(msgspec.json.encode(msgspec.yaml.decode(text)))


@functools.cache
def _rows(name: str) -> tuple[tuple[tuple[str, ...], re.Pattern[str] | None, str], ...]:
    """Return plain words, patterns and cause of each row of `messages`, `texts` or `ignored`.

    Most patterns are plain words, which are fast to search for.
    """
    rows = []
    for row in getattr(known(), name):
        words = tuple(pattern for pattern in row.patterns if _WORDS.fullmatch(pattern))
        others = "|".join(f"(?:{pattern})" for pattern in row.patterns if pattern not in words)
        expression = re.compile(others, re.MULTILINE) if others else None
        rows.append((words, expression, row.cause or name))
    return tuple(rows)


@functools.cache
def _shape(name: str) -> re.Pattern[str]:
    patterns = (f"(?:{pattern})" for pattern in known().shapes[name].patterns)
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


def names() -> frozenset[str]:
    return frozenset(known().by_name)


def missing_object(message: str) -> Mapping[str, str] | None:
    """Return the object that a Pod lacks according to a kubelet or scheduler, or None.

    Returns:
        `kind` in lower case, `name`, and `key` if the object lacks that.
    """
    for shape in ("missing object", "missing key"):
        if match := _shape(shape).search(message[:_LONGEST_LINE]):
            return {**match.groupdict(), "kind": match["kind"].lower()}
    return None


def signal_of(code: int | None) -> int:
    """Return the number of the signal that an exit code stands for; 0 for none."""
    return code - 128 if code is not None and 128 < code < 160 else 0


def is_strike(name: str) -> bool:
    cause = known().by_name.get(name)
    return cause is not None and cause.blame == "node"


@functools.lru_cache(maxsize=1024)
def cause_of(
    reason: str,
    code: int | None = None,
    signal: int = 0,
    message: str = "",
    tail: str = "",
    job: str = "",
) -> Cause:
    """Return why something ended.

    Args:
        reason: Kubernetes' word for it, with its `message`.
        signal: The number of the signal that ended it; 0 if none did.
        tail: The last lines that it wrote.
        job: What the names of the job's Pods begin with; empty if that is not known.
    """
    causes = known().by_name
    words = " ".join((message or tail).split())[:_LONGEST_LINE]
    if reason and (name := _named(f"{reason}: {words}", "messages")):
        return causes[name]
    if reason in known().reasons:
        return causes[known().reasons[reason]]
    if code is None and pods.is_refusal(reason):
        if not reason.startswith("OutOf"):
            return causes["Refused"]
        text = "was not admitted by its node, which had less room than the scheduler thought"
        return structs.replace(causes["Refused"], text=text)
    if reason in causes:
        return causes[reason]
    number = SIGNALS.get(signal or signal_of(code), "")
    name = known().signals.get(number, "")
    name = name or known().codes.get(code if code is not None else -1, "")
    spoken = _spoken(tail, job, code, name if number in _CRASHES else "") if code != 0 else None
    more = known().more.get(name, ("RankEnded",))
    if spoken is not None and (name in ("", "Aborted") or spoken.name in more):
        return spoken
    if spoken is not None and number in _CRASHES and not spoken.may_follow:
        return spoken  # its last words before the crash say why
    if name:
        return structs.replace(causes[name], line=spoken.line if spoken is not None else "")
    if code is None:
        return causes["Unknown"]
    return structs.replace(causes["ExitCode"], text=f"ended with exit code {code}")


@functools.lru_cache(maxsize=2048)  # peers say the same
def _named(text: str, rows: Literal["messages", "texts", "ignored"] = "texts") -> str:
    lowered = text.lower()
    for words, expression, cause in _rows(rows):
        if any(word in lowered for word in words) or (expression and expression.search(lowered)):
            return cause
    return ""


class _Statement(Struct, frozen=True):
    """A traceback, a message between rules, or a line."""

    place: int  # its number among the lines
    words: tuple[str, ...]  # of each exception of a chain, the last first
    frames: str = ""
    is_exception: bool = False
    is_followed: bool = False  # by lines that do not say that the program survived it


def _spoken(text: str, job: str, code: int | None, crash: str) -> Cause | None:
    """Return the cause that the last words of a program name; None if they name none.

    Args:
        crash: The cause that the signal names: lines that only repeat it explain nothing.
    """
    # Python ends with 1 after an uncaught exception: another code is the program's own choice.
    may_follow = code in (None, 1) or signal_of(code) > 0
    lines = text.splitlines()[-_MOST_LINES:]
    if any("Traceback (most recent call last):\\n" in line for line in lines):
        lines = "\n".join(lines).replace("\\n", "\n").splitlines()  # a logger that writes JSON
    lines = [line[:_LONGEST_LINE].rstrip() for line in lines]
    for prefix in ("group", "stamp"):
        if any("Traceback (most" in line and _shape(prefix).match(line) for line in lines):
            lines = [_shape(prefix).sub("", line, count=1) for line in lines]
    by_process: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for place, line in enumerate(lines):
        prefix = match[0] if (match := _shape("prefix").match(line)) else ""
        by_process[prefix].append((place, line[len(prefix) :]))
    statements = itertools.chain.from_iterable(
        _last_words(output, may_follow=may_follow) for output in by_process.values()
    )
    restated, vague, followed, has_raised = [], [], [], False
    first: Cause | None = None
    for said in sorted(statements, key=lambda said: -said.place):
        cause = _meaning(said, job)
        if cause is None:
            continue
        if first is not None and cause.name != first.name:
            break
        if cause.name in (crash, "Terminated"):
            restated.append(cause)
            continue
        if said.is_followed:
            cause = structs.replace(cause, text=f"probably {cause.text}")
        raised = said.is_exception or bool(_shape("bare exception").match(said.words[0]))
        if cause.may_follow:
            followed.append(cause)
        elif cause.name in ("Exception", "DeviceFault") and _shape("vague").search(cause.line):
            vague.append(structs.replace(cause, blame="unknown"))
            continue
        elif raised or not has_raised:
            first = cause
            if raised or cause.is_vague or cause.name == "Exception":
                break  # the first of several lines that name one cause says most
        has_raised = has_raised or raised
    if first is not None:
        return first
    # One of several lines about lost peers may name the peer.
    followed.sort(key=lambda c: (not c.is_consequence, -_says_to_whom(c.line, job)))
    return next(iter((*restated, *followed, *vague)), None)


def _last_words(lines: Sequence[tuple[int, str]], *, may_follow: bool) -> Iterator[_Statement]:
    """Yield what a process wrote at its end, the last first.

    A line that is no traceback proves that the program died of it only at the end of the log.
    Ordinary lines may come after a traceback (`may_follow`): stdout is another pipe and is flushed
    late, and other threads write to it.
    """
    later, is_last = list[str](), False
    statements = [*_statements(lines)]
    for number, said in reversed([*enumerate(statements)]):
        words = said.words[0]
        name = _named(words)
        went_on = not said.frames and _shape("survived").search(words)
        has_survived = went_on or (not said.frames and _shape("warning").search(words))
        is_raised = said.is_exception and not _shape("wrapper").match(words)
        if later and is_raised:
            before = [s.words[0] for s in statements[:number]]
            is_thread = bool(before) and before[-1].startswith("Exception in thread")
            if not is_last and _goes_on(before, later, is_thread=is_thread):
                return
            is_last = True
            yield structs.replace(said, is_followed=True)
        elif later and (went_on or is_last):
            return
        elif later:
            later.append(words)
        elif (is_raised or name) and not has_survived:
            yield said
        elif said.is_exception:
            continue
        elif _shape("bare exception").match(words) and not has_survived:
            yield said
        elif "\n" not in words and words[:1] not in " \t" and not _named(words, "ignored"):
            if went_on or not may_follow:
                return
            later.append(words)


def _goes_on(before: Sequence[str], later: Sequence[str], *, is_thread: bool) -> bool:
    """Return True if a program went on counting: two lines or more continue the counts before.

    If only a thread ended, there need be no counts before.
    """
    counts = [
        [int(match[1]) for line in lines if (match := _shape("count").search(line))]
        for lines in (before, later)
    ]
    highest = max(counts[0], default=-1 if is_thread else math.inf)
    return sum(number > highest for number in counts[1]) > 1


def _statements(lines: Sequence[tuple[int, str]]) -> Iterator[_Statement]:
    number = 0
    chain: list[str] = []
    # A text that was cut may begin in the middle of a traceback.
    cut = itertools.takewhile(lambda line: line[1].startswith(" "), lines)
    is_bare = bool(lines) and _shape("bare exception").match(lines[0][1])
    if is_bare or any('File "' in line for _, line in cut):
        lines = [(-1, "Traceback (most recent call last):"), *lines]
    while number < len(lines):
        place, line = lines[number]
        number += 1
        if _shape("rule").match(line):
            ends = (n for n in range(number, len(lines)) if _shape("rule").match(lines[n][1]))
            end = next(ends, len(lines))
            if 0 < end - number <= _BOX and end < len(lines):
                words = "\n".join(text for _, text in lines[number:end])
                yield _Statement(place, (words if "\n" in words else f"{words}\n",))
                number = end
        elif number < len(lines) and _shape("opening").match(line):
            yield _Statement(place, (f"{line}\n{lines[number][1]}",))
            number += 1
        elif not _shape("traceback").search(line):
            yield _Statement(place, (line,))
        else:
            is_ignored = number > 1 and lines[number - 2][1].startswith("Exception ignored")
            begin, number = number, _end_of_frames(lines, number, _indent(line))
            while number + 1 < len(lines) and _is_between_frames(lines, number):
                number = _end_of_frames(lines, number + 1, 0)
            if number == len(lines):
                return
            frames = "\n".join(text for _, text in lines[begin:number])
            place, said = lines[number][0], [lines[number][1].strip()]
            name = _named(said[0])
            is_unfinished = _shape("unfinished").search(said[0]) is not None
            number += 1
            while number < len(lines) and len(said) <= _MESSAGE_LINES:
                text = lines[number][1]
                # TensorFlow names the node and its frames before it says what happened.
                is_between = is_unfinished and len(said) == 1 and not _named(text)
                is_frame = text.startswith("      ") or bool(_named(text, "ignored"))
                is_between = is_between and (not text or is_frame)
                if not is_between and not _continues(text, name):
                    break
                said += [] if is_between else [text]
                number += 1
            chain.insert(0, "\n".join(said))
            after = next((n for n in range(number, len(lines)) if lines[n][1]), len(lines))
            if after < len(lines) and _shape("chained").match(lines[after][1]):
                number = after + 1
                while number < len(lines) and not _shape("traceback").search(lines[number][1]):
                    number += 1
                if number < len(lines):
                    continue
            if not is_ignored:
                yield _Statement(place, tuple(chain), frames, is_exception=True)
            chain = []


def _end_of_frames(lines: Sequence[tuple[int, str]], number: int, margin: int) -> int:
    while number < len(lines):
        line = lines[number][1]
        if line and _indent(line) <= margin and line.lstrip()[:1] != "^":
            break
        number += 1
    return number


def _is_between_frames(lines: Sequence[tuple[int, str]], number: int) -> bool:
    """Return True if a line heads the frames of another process, or came from another pipe."""
    line, after = lines[number][1], lines[number + 1][1]
    if ":" in line or _shape("bare exception").match(line):
        return after.startswith('  File "')
    is_frame = after.startswith(("    ", '  File "'))
    return is_frame or _shape("bare exception").match(after) is not None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continues(line: str, name: str) -> bool:
    """Return True if a line may belong to the exception before it, which has cause `name`."""
    ends = ("traceback", "chained", "at work", "survived")
    if not line or any(_shape(name).search(line) for name in ends):
        return False
    other = _named(line)
    is_same = other in ("", name) or {other, name} <= _CONNECTIONS
    return line[0] in " \t-" or (is_same and not _named(line, "ignored"))


def _meaning(said: _Statement, job: str) -> Cause | None:
    """Return the cause that a statement names; of a chain of exceptions, the last known one."""
    causes = known().by_name
    for words in sorted(said.words, key=lambda words: bool(_shape("vague").search(words))):
        name = _named(words)
        if name in ("Connection", "Unreachable"):
            name = _other_end(words, said.frames, job, name)
        if name == "Exception":
            return _exception(" ".join(words.split()))
        if name:
            return structs.replace(causes[name], line=_shown(words, name, job))
    last = said.words[0].partition("\n")[0]
    if _shape("unfinished").search(last):
        last = " ".join(said.words[0].split())
    if not _shape("exception" if said.is_exception else "bare exception").match(last):
        return None
    path, separator, words = last.partition(":")
    exception = _exception(f"{path.rpartition('.')[2]}{separator}{words}")
    # Another rank may have failed in the call that this one could not complete.
    is_collective = _shape("collective").search("\n".join(said.frames.splitlines()[-2:]))
    return structs.replace(exception, blame="unknown") if is_collective else exception


def _exception(words: str) -> Cause:
    line = words[:_LONGEST_WORDS]
    text = f"ended with an exception, {line}"
    return structs.replace(known().by_name["Exception"], text=text, line=line)


def _shown(words: str, name: str, job: str) -> str:
    """Return the line that names the other end or matched a row; all of a launcher's message."""
    lines = words.splitlines()
    if name in _CONNECTIONS:
        lines = [max(lines, key=lambda line: _says_to_whom(line, job))]
    elif name not in ("RankEnded", "Launcher", "Unauthorized"):
        lines = [next((line for line in lines if _named(line) == name), lines[0])]
    words = " ".join(" ".join(lines).split())[:_LONGEST_BOX]
    return _PROCESS.sub(r"rank \1", words)


def _other_end(words: str, frames: str, job: str, name: str) -> str:
    """Return the cause of a broken connection: to a peer, to a service, or unknown."""
    innermost = "\n".join(frames.splitlines()[-3:])
    if _shape("local").search(innermost):
        return "Exception"  # the broken connection is local; other lines say what happened
    if _names_peer(words, job):
        return "PeerLost"
    if _shape("client").search(words) or _shape("host").search(words):
        return "Unreachable"
    if _shape("collective").search(frames):
        return "PeerLost"
    return "Unreachable" if _shape("client").search(frames) else name


def _says_to_whom(line: str, job: str) -> int:
    """Rate what a line says of a connection: that it broke, to which host, to which peer."""
    names_host = _shape("address").search(line) or _shape("host").search(line)
    is_named, breaks = bool(job) and f"{job}-" in line, _named(line) in _CONNECTIONS
    return is_named + (names_host is not None) + _names_peer(line, job) + breaks


def _names_peer(words: str, job: str) -> bool:
    """Return True if a text names a Pod of the job, or a port or task that only a peer has."""
    return bool((job and re.search(pod_pattern(job), words)) or _shape("peer").search(words))


def pod_pattern(job: str) -> str:
    """Return the pattern of the name of a Pod of a job, where it stands for the whole name."""
    return rf"(?<![\w.])(?<!Call From ){re.escape(job)}-(?:[a-z][a-z0-9-]{{0,62}}-\d|{_LONE})"
