"""Explain the status of a job to people: on a terminal, as Markdown, and as a page."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from etcompile.causes.log import Failure
from etcompile.diagnostics.redaction import shown
from etcompile.model.protocol import PREFLIGHT
from etcompile.model.run_record import ranges
from etcompile.naming import some
from etcompile.pages import page
from etcompile.status.explanations import Attempt, Explanation
from etcompile.status.text import age, in_training, lasting, reason_lines, unwatched

LINES = 20  # of a log that are shown
_TO_DO = "What to do"
_MOST = 8  # entries of each kind that are listed


class Section(Struct, frozen=True):
    """A part of an explanation: a sentence or lines, and the last lines of a log."""

    heading: str
    lead: str = ""
    lines: Sequence[str] = ()
    tail: Sequence[str] = ()


def explanation_text(why: Explanation, now: datetime, *, lines: int = LINES) -> str:
    title, because = headline(why)
    rows = [f"{title} ({because})" if why.over else f"{title}: {because}", *facts(why, now)]
    for part in sections(why, now, lines):
        mark = "  - " if part.heading == _TO_DO else "  "
        rows += ["", f"{part.heading}: {part.lead}".rstrip()]
        rows += (f"{mark}{line}" for line in part.lines)
        rows += ["  Its last lines:"] if part.tail else []
        rows += (f"    | {line}" for line in part.tail)
    return "".join(f"{shown(row)}\n" for row in rows)


def explanation_markdown(why: Explanation, now: datetime, *, lines: int = LINES) -> str:

    def escaped(text: str) -> str:
        return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|" else c for c in " ".join(text.split()))

    parts = [f"### {escaped(': '.join(headline(why)))}", *map(escaped, facts(why, now))]
    for part in sections(why, now, lines):
        parts.append(f"**{part.heading}:** {escaped(part.lead)}".rstrip())
        parts.append("\n".join(f"- {escaped(line)}" for line in part.lines))
        if part.tail:
            longest = max(len(line) - len(line.lstrip("`")) for line in part.tail)
            fence = "`" * max(3, longest + 1)
            parts.append("\n".join((fence, *part.tail, fence)))
    return "\n\n".join(filter(None, parts)) + "\n"


def headline(why: Explanation) -> tuple[str, str]:
    """Return the state of the job in a few words, and its reason or how many Pods are ready."""
    status = why.status
    kind = f" ({status.kind})" if status.kind else ""
    name = f"{status.namespace}/{status.name}{kind}"
    if why.over:
        return f"{name} has {status.phase.lower()}", shown(status.because)
    ready = sum(role.ready for role in status.roles)
    desired = sum(role.desired or 0 for role in status.roles)
    of = f"{ready} of {desired} Pods are ready"
    if why.last is None and not why.held and not why.refused and ready == desired:
        of = f"{of}, and nothing has failed"
    return f"{name} is {status.phase.lower()}", of


def facts(why: Explanation, now: datetime) -> list[str]:
    sentences = []
    if (since := why.status.unwatched_since) is not None:
        sentences.append(f"Watcher: {unwatched(since, now)}.")
    if why.status.goodput is not None:
        sentences.append(
            f"It {'was' if why.over else 'has been'} {in_training(why.status.goodput)}."
        )
    if why.has_log and why.restarts:
        times = "once" if why.restarts == 1 else f"{why.restarts} times"
        limit = "" if why.limit is None else f" of at most {why.limit}"
        sentences.append(f"The watcher has restarted the run {times}{limit}.")
    return [*sentences, why.verdict] if why.verdict else sentences


def sections(why: Explanation, now: datetime, lines: int) -> list[Section]:
    parts = []
    if why.last is not None:
        first, known = why.last.first, _known(why.last, now)
        tail, words = first.tail.splitlines(), first.cause.line[:40]
        said = [number for number, line in enumerate(tail, 1) if words and words in line]
        most = lines
        if lines and said and said[-1] <= len(tail) - lines:
            # The line that says why stays, even if much other output follows it.
            tail = [*tail[: said[-1]], f"({len(tail) - said[-1]} more lines)"]
            most += 1
        tail = tail[-most:] if most else []
        if not (tail or why.has_log or why.over):
            known.append("No watcher keeps what failed; this is what its Pod still says.")
        title = "Last interruption" if first.cause.blame == "platform" else "Last failure"
        title = "First to fail" if why.over else title
        last_lines = [shown(line.expandtabs()) for line in tail]
        parts.append(Section(title, _failure_line(first, now), known, last_lines))
        if followed := _what_followed(why.last):
            parts.append(Section("What followed", followed))
    nodes = []
    for node, causes in why.nodes:
        each = ", ".join(f"{name} ({count})" for name, count in sorted(causes.items()))
        avoided = "; Pods that are recreated avoid it" if node in why.avoided else ""
        nodes.append(f"{node}: {each}{avoided}")
    waiting = [*reason_lines(why.held)]
    waiting += (f"{some(event.objects)}: {shown(event.message)}" for event in why.refused)
    to_do = [*why.advice]
    if why.warned:
        says = f"kubectl logs {why.warned[0]} -n {why.status.namespace} -c {PREFLIGHT}"
        to_do = [f"The preflight check has warned in {some(why.warned)}; {says} says why.", *to_do]
    earlier = [f"attempt {a.number + 1}: {_failure_line(a.first, now)}" for a in why.attempts[1:]]
    for heading, entries in (
        ("Before that", earlier),
        ("Nodes on which something failed by itself", nodes),
        ("What it waits for", waiting),
        (_TO_DO, to_do),
    ):
        more = [f"and {len(entries) - _MOST} more"] if len(entries) > _MOST else []
        if entries:
            parts.append(Section(heading, lines=[*entries[:_MOST], *more]))
    return parts


def _failure_line(failure: Failure, now: datetime) -> str:
    where = f" on node {failure.node}" if failure.node else ""
    when = ""
    if failure.at is not None:
        moment = datetime.fromtimestamp(failure.at, UTC)
        when = f", {age(moment.isoformat(), now)} ago ({moment:%H:%M:%S} UTC)"
    what = f"container {failure.container}" if failure.container else "it"
    return f"{failure.pod}{where}{when}: {what} {shown(failure.in_words)}"


def _known(attempt: Attempt, now: datetime) -> list[str]:
    cause, lines = attempt.first.cause, []
    if cause.line and cause.line not in cause.text:
        lines.append(f"It says: {shown(cause.line)}")
    if cause.is_vague:
        lines.append("The cause is unknown: this is all that was seen.")
    if attempt.tied:
        others = [_failure_line(other, now) for other in attempt.tied]
        lines.append(f"Failed in the same second: {some(others)}.")
        lines.append("Which of them was first is not known.")
    if cause.is_consequence:
        lines.append("Which rank failed first is not known: all that failed had lost another one.")
        if attempt.running:
            lines.append(f"Look at what did not fail: {some(attempt.running)}.")
    return lines


def _what_followed(attempt: Attempt) -> str:
    """Say how the others of an attempt ended, and how often the first failed again; or nothing."""
    parts = []
    if attempt.again:
        times = "once" if attempt.again == 1 else f"{attempt.again} times"
        parts.append(f"it failed again {times}")
    if count := sum(number for _, number in attempt.followed):
        each = ", ".join(f"{number} {shown(text)}" for text, number in attempt.followed)
        same = attempt.first.role, attempt.first.index
        ends = [o.at for o in attempt.others if o.at is not None and (o.role, o.index) != same]
        within = ""
        if ends and attempt.first.at is not None:
            within = f" within {max(1.0, max(ends) - attempt.first.at):.0f} s"
        parts.append(f"{count} more ended{within}: {each}")
    return "; ".join(parts)


# As a page that needs no other files --------------------------------------------------------------

Outcome = Literal["first", "failed", "ended", "ready", "waiting", "done"]
_SIGNS: dict[Outcome, tuple[str, str]] = {
    "first": ("1st", "failed first"),
    "failed": ("\N{MULTIPLICATION SIGN}", "failed after another one"),
    "ended": ("\N{MIDDLE DOT}", "ended with the attempt; nothing else is known"),
    "ready": ("\N{CHECK MARK}", "is ready"),
    "waiting": ("\N{HORIZONTAL ELLIPSIS}", "is not ready yet"),
    "done": ("\N{WHITE SQUARE}", "has succeeded"),
}
_NOW: dict[str, Outcome] = {"Ready": "ready", "Succeeded": "done"}
MOST_ATTEMPTS = 12  # the last ones have a column


def explanation_page(why: Explanation, now: datetime, *, lines: int = LINES) -> str:
    title, because = headline(why)
    timeline, goodput = why.status.timeline, why.status.goodput
    columns, rows = replica_grid(why)
    ended = timeline.attempts[-1].ended if timeline is not None else 0.0
    return page(
        "why.html.j2",
        title=title,
        because=because,
        facts=facts(why, now),
        now=now.timestamp(),
        stamp=lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC",
        sections=sections(why, now, lines),
        timeline=timeline,
        end=max(ended or now.timestamp(), timeline.began + 1.0) if timeline is not None else 0.0,
        label=in_training(goodput) if goodput is not None else "",
        before=lasting(timeline.before) if timeline is not None and timeline.before else "",
        failures=[at for attempt in why.attempts if (at := attempt.first.at) is not None],
        columns=columns,
        rows=rows,
        signs=_SIGNS,
    )


def replica_grid(why: Explanation) -> tuple[list[int], list[tuple[str, int, list[Outcome]]]]:
    """Tabulate what became of each replica in each attempt; equal histories share a row.

    Returns:
        The attempts that have a column, the first of a run being 1; and for each row its name,
        `worker 0-2,4-255`, the number of its replicas, and what became of them in each column.
    """
    known = why.status.timeline.attempts if why.status.timeline is not None else ()
    numbers = {*(attempt.number for attempt in why.attempts), *(past.number for past in known)}
    columns = sorted(numbers)[-MOST_ATTEMPTS:]
    if not columns:
        return [], []
    outcomes: defaultdict[tuple[str, int], dict[int, Outcome]]
    outcomes = defaultdict(lambda: dict.fromkeys(columns, "ended"))
    for replica in why.status.replicas:
        of_replica = outcomes[replica.role, replica.index or 0]
        if not why.over or replica.state == "Succeeded":
            of_replica[columns[-1]] = _NOW.get(replica.state, "waiting")
    for attempt in why.attempts:
        for failure in (*attempt.others, attempt.first):
            is_first = failure is attempt.first or failure in attempt.tied
            of_replica = outcomes[failure.role, failure.index]
            of_replica[attempt.number] = "first" if is_first else "failed"
    shared: defaultdict[tuple[str, tuple[Outcome, ...]], list[int]] = defaultdict(list)
    for (role, index), of_replica in outcomes.items():
        shared[role, tuple(of_replica[number] for number in columns)].append(index)
    rows = [
        (f"{role} {ranges(indexes)}", len(indexes), [*history])
        for (role, history), indexes in shared.items()
    ]
    return [number + 1 for number in columns], rows
