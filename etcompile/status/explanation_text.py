"""Why a job is as it is, in words for people: on a terminal, and as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from etcompile.diagnostics.redaction import shown
from etcompile.failures import Failure
from etcompile.model.protocol import PREFLIGHT
from etcompile.status.explanations import Attempt, Explanation
from etcompile.status.text import age, in_training, some

_LINES = 20
"""So many of the last lines are shown."""
_TO_DO = "What to do"
_MOST = 8
"""So many of each kind are listed."""


def explanation_text(why: Explanation, now: datetime, *, lines: int = _LINES) -> str:
    """Why a job is as it is, for a terminal, with so many lines of what failed first."""
    return "".join(f"{shown(line)}\n" for line in _text(why, now, lines))


def _text(why: Explanation, now: datetime, lines: int) -> Iterator[str]:
    yield headline(why)
    yield from filter(None, (goodput_line(why), restarts_line(why), why.verdict))
    if why.last is not None:
        yield ""
        first = why.last.first
        yield f"{'First to fail' if why.over else 'Last failure'}: {failure_line(first, now)}"
        yield from (f"  {line}" for line in what_is_known(why.last, now))
        if tail := tail_of(first, lines):
            yield "  Its last lines:"
            yield from (f"    | {line}" for line in tail)
        elif not why.has_log and not why.over:
            yield "  No watcher keeps what failed; this is what its Pod still says."
        if followed := what_followed(why.last):
            yield f"What followed: {followed}"
    for heading, entries in _sections(why, now):
        mark = "  - " if heading == _TO_DO else "  "
        yield from ("", f"{heading}:", *(f"{mark}{entry}" for entry in entries))


def _sections(why: Explanation, now: datetime) -> Iterator[tuple[str, Sequence[str]]]:
    """What is said besides the last failure: a heading, and lines."""
    earlier = [f"attempt {a.number + 1}: {failure_line(a.first, now)}" for a in why.attempts[1:]]
    longest = max((len(node) for node, _ in why.nodes[:_MOST]), default=0)
    nodes = [
        f"{node.ljust(longest)}  {sum(causes.values()):>3}  {causes_of_node(why, node, causes)}"
        for node, causes in why.nodes
    ]
    sections = {
        "Before that": earlier,
        "Nodes on which something failed by itself": nodes,
        "What it waits for": waiting_lines(why),
        _TO_DO: [*filter(None, (warned_line(why),)), *why.advice],
    }
    for heading, entries in sections.items():
        more = [f"and {len(entries) - _MOST} more"] if len(entries) > _MOST else []
        if entries:
            yield heading, [*entries[:_MOST], *more]


def headline(why: Explanation) -> str:
    """What the job is, in a sentence."""
    head, because = headline_parts(why)
    return f"{head} ({because})" if why.over else f"{head}: {because}"


def headline_parts(why: Explanation) -> tuple[str, str]:
    """What the job is, in a few words; and what that follows from, or how many Pods are ready."""
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


def goodput_line(why: Explanation) -> str:
    """How much of its time the run has been in training; empty if that is not known."""
    if why.status.goodput is None:
        return ""
    return f"It {'was' if why.over else 'has been'} {in_training(why.status.goodput)}."


def failure_line(failure: Failure, now: datetime) -> str:
    """A failure in a line: who, where, when and how."""
    where = f" on node {failure.node}" if failure.node else ""
    when = ""
    if failure.at is not None:
        moment = datetime.fromtimestamp(failure.at, UTC)
        when = f", {age(moment.isoformat(), now)} ago ({moment:%H:%M:%S} UTC)"
    what = f"container {failure.container}" if failure.container else "it"
    return f"{failure.pod}{where}{when}: {what} {shown(failure.in_words)}"


def what_is_known(attempt: Attempt, now: datetime) -> list[str]:
    """What else is known of the first failure of an attempt, and what is not."""
    cause, lines = attempt.first.cause, []
    if cause.line and cause.line not in cause.text:
        lines.append(f"It says: {shown(cause.line)}")
    if cause.is_vague:
        lines.append("The cause is unknown: this is all that was seen.")
    if attempt.tied:
        others = [failure_line(other, now) for other in attempt.tied[:_MOST]]
        more = f" and {len(attempt.tied) - _MOST} more" if len(attempt.tied) > _MOST else ""
        lines.append(f"Failed in the same second: {'; '.join(others)}{more}.")
        lines.append("Which of them was first is not known.")
    if cause.is_consequence:
        lines.append("Which rank failed first is not known: all that failed had lost another one.")
        if attempt.running:
            lines.append(f"Look at what did not fail: {some(attempt.running)}.")
    return lines


def tail_of(failure: Failure, lines: int) -> list[str]:
    """The last lines of what failed, as they may be shown."""
    last = failure.tail.splitlines()[-lines:] if lines else []
    return [shown(line.expandtabs()) for line in last]


def what_followed(attempt: Attempt) -> str:
    """What the others of an attempt ended of, and how often the first failed again; or empty."""
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


def causes_of_node(why: Explanation, node: str, causes: Mapping[str, int]) -> str:
    """What failed on a node, each with how often, and whether it is avoided."""
    each = ", ".join(f"{name} {count}" for name, count in sorted(causes.items()))
    return each + ("; Pods that are recreated avoid it" if node in why.avoided else "")


def warned_line(why: Explanation) -> str:
    """Which Pods went on though their preflight check warned; empty if none did."""
    if not why.warned:
        return ""
    says = f"kubectl logs {why.warned[0]} -n {why.status.namespace} -c {PREFLIGHT}"
    return f"The preflight check has warned in {some(why.warned)}; {says} says why."


def waiting_lines(why: Explanation) -> list[str]:
    """What keeps replicas from being ready, or from being created."""
    lines = []
    for held in why.held:
        word = "" if held.reason in ("", held.state) else f", {held.reason}"
        message = f": {shown(held.message)}" if held.message else ""
        lines.append(f"{some(held.names)}: {held.state}{word}{message}")
    return lines + [f"{some(event.objects)}: {shown(event.message)}" for event in why.refused]


def restarts_line(why: Explanation) -> str:
    """How often the watcher has restarted the run, and may; empty if it has not."""
    if not why.has_log or not why.restarts:
        return ""
    times = "once" if why.restarts == 1 else f"{why.restarts} times"
    limit = "" if why.limit is None else f" of at most {why.limit}"
    return f"The watcher has restarted the run {times}{limit}."


# Markdown ---------------------------------------------------------------------------------------


def explanation_markdown(why: Explanation, now: datetime, *, lines: int = _LINES) -> str:
    """Why a job is as it is, for an issue or a chat."""
    facts = (goodput_line(why), restarts_line(why), why.verdict)
    parts = [f"### {_escaped(headline(why))}", *map(_escaped, facts)]
    if why.last is not None:
        parts.append(f"**First to fail:** {_escaped(failure_line(why.last.first, now))}")
        parts += map(_escaped, what_is_known(why.last, now))
        if tail := tail_of(why.last.first, lines):
            longest = max(len(line) - len(line.lstrip("`")) for line in tail)
            fence = "`" * max(3, longest + 1)
            parts.append("\n".join((fence, *tail, fence)))
        if followed := what_followed(why.last):
            parts.append(f"**What followed:** {_escaped(followed)}")
    for heading, entries in _sections(why, now):
        listed = "\n".join(f"- {_escaped(entry)}" for entry in entries)
        parts.append(f"**{heading}:**\n\n{listed}")
    return "\n\n".join(filter(None, parts)) + "\n"


def _escaped(text: str) -> str:
    """A text in one line, without what Markdown would act on."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|" else c for c in " ".join(text.split()))
