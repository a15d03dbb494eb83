"""Why a job is as it is, in words for people: on a terminal, and as Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from etcompile.diagnostics.redaction import shown
from etcompile.failures import Failure
from etcompile.model.protocol import PREFLIGHT
from etcompile.status.text import age, in_training, some
from etcompile.status.why.explanation import Attempt, Explanation

_LINES = 20
"""So many of the last lines are shown."""
_EARLIER = 8
"""So many attempts before the last are listed."""


def explanation_text(why: Explanation, now: datetime, *, lines: int = _LINES) -> str:
    """Why a job is as it is, for a terminal.

    Args:
        why: What is to be told.
        now: What ages count to.
        lines: So many of the last lines of what failed first are shown.
    """
    return "".join(f"{shown(line)}\n" for line in _text(why, now, lines))


def _text(why: Explanation, now: datetime, lines: int) -> Iterator[str]:
    yield headline(why)
    if words := goodput_line(why):
        yield words
    if why.last is not None:
        yield ""
        yield f"{'First to fail' if why.over else 'Last failure'}: {told(why.last.first, now)}"
        if tail := tail_of(why.last.first, lines):
            yield "  Its last lines:"
            yield from (f"    | {line}" for line in tail)
        elif not why.kept and not why.over:
            yield "  No watcher keeps what failed; this is what its Pod still says."
        if followed := what_followed(why.last):
            yield f"What followed: {followed}"
    if earlier := why.attempts[1:]:
        yield ""
        yield "Before that:"
        for attempt in earlier[:_EARLIER]:
            yield f"  attempt {attempt.number + 1}: {told(attempt.first, now)}"
        if len(earlier) > _EARLIER:
            yield f"  and {len(earlier) - _EARLIER} more"
    if why.nodes:
        yield ""
        yield "Nodes on which something failed by itself:"
        yield from (f"  {line}" for line in node_lines(why))
    if why.held or why.refused:
        yield ""
        yield "What it waits for:"
        yield from (f"  {line}" for line in waiting_lines(why))
    if warned := warned_line(why):
        yield ""
        yield warned
    if restarts := restarts_line(why):
        yield ""
        yield restarts
    if why.advice:
        yield ""
        yield "What to do:"
        yield from (f"  - {line}" for line in why.advice)


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
    wanted = sum(role.desired or 0 for role in status.roles)
    of = f"{ready} of {wanted} Pods are ready"
    if why.last is None and not why.held and not why.refused and ready == wanted:
        of = f"{of}, and nothing has failed"
    return f"{name} is {status.phase.lower()}", of


def goodput_line(why: Explanation) -> str:
    """How much of its time the run has been in training; empty if that is not known."""
    if why.status.goodput is None:
        return ""
    been = "It was" if why.over else "It has been"
    return f"{been} {in_training(why.status.goodput)}."


def told(failure: Failure, now: datetime) -> str:
    """A failure in a line: who, where, when and how."""
    where = f" on node {failure.node}" if failure.node else ""
    when = f", {_when(failure.at, now)}" if failure.at else ""
    return f"{failure.pod}{where}{when}: it {shown(failure.in_words)}"


def tail_of(failure: Failure, lines: int) -> list[str]:
    """The last lines of what failed, as they may be shown."""
    last = failure.tail.splitlines()[-lines:] if lines else []
    return [shown(line.expandtabs()) for line in last]


def what_followed(attempt: Attempt) -> str:
    """What the others of an attempt ended of, and how often the first failed again; or empty."""
    told = []
    if attempt.again:
        told.append(f"it failed again {'once' if attempt.again == 1 else f'{attempt.again} times'}")
    if count := sum(number for _, number in attempt.followed):
        each = ", ".join(f"{number} {shown(text)}" for text, number in attempt.followed)
        same = attempt.first.role, attempt.first.index
        ends = [other.at for other in attempt.others if (other.role, other.index) != same]
        last = max(ends, default=0.0)
        within = f" within {max(1.0, last - attempt.first.at):.0f} s" if last else ""
        told.append(f"{count} more ended{within}: {each}")
    return "; ".join(told)


def node_lines(why: Explanation) -> list[str]:
    """How often something failed on which node."""
    longest = max(len(node) for node, _ in why.nodes)
    return [
        f"{node.ljust(longest)}  {sum(causes.values()):>3}  {of_what(why, node, causes)}"
        for node, causes in why.nodes
    ]


def of_what(why: Explanation, node: str, causes: Mapping[str, int]) -> str:
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
    lines += [f"{some(event.objects)}: {shown(event.message)}" for event in why.refused]
    return lines


def restarts_line(why: Explanation) -> str:
    """What the watcher has done, and may do."""
    if not why.kept:
        return ""
    times = "once" if why.restarts == 1 else f"{why.restarts} times"
    limit = "" if why.limit is None else f" of at most {why.limit}"
    if why.restarts:
        return f"The watcher has restarted the run {times}{limit}."
    return ""


def _when(at: float, now: datetime) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    return f"{age(moment.isoformat(), now)} ago ({moment:%H:%M:%S} UTC)"


# Markdown ---------------------------------------------------------------------------------------


def explanation_markdown(why: Explanation, now: datetime, *, lines: int = _LINES) -> str:
    """Why a job is as it is, for an issue or a chat."""
    parts = [f"### {_escaped(headline(why))}"]
    if words := goodput_line(why):
        parts.append(words)
    if why.last is not None:
        parts.append(f"**First to fail:** {_escaped(told(why.last.first, now))}")
        if tail := tail_of(why.last.first, lines):
            parts.append(_fenced(tail))
        if followed := what_followed(why.last):
            parts.append(f"**What followed:** {_escaped(followed)}")
    if earlier := why.attempts[1:]:
        rows = (f"| {a.number + 1} | {_cell(told(a.first, now))} |" for a in earlier)
        parts.append("\n".join(("| attempt | failed first |", "|---|---|", *rows)))
    if why.nodes:
        rows = (
            f"| {_cell(node)} | {sum(causes.values())} | {_cell(of_what(why, node, causes))} |"
            for node, causes in why.nodes
        )
        parts.append("\n".join(("| node | failures | of what |", "|---|---:|---|", *rows)))
    if waiting := waiting_lines(why):
        parts.append("**What it waits for:**\n\n" + _listed(waiting))
    if warned := warned_line(why):
        parts.append(_escaped(warned))
    if restarts := restarts_line(why):
        parts.append(_escaped(restarts))
    if why.advice:
        parts.append("**What to do:**\n\n" + _listed(why.advice))
    return "\n\n".join(parts) + "\n"


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in lines)


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|" else c for c in text)


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split()))


def _fenced(lines: Sequence[str]) -> str:
    longest = max((len(line) - len(line.lstrip("`")) for line in lines), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((fence, *lines, fence))
