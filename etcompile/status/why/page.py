"""Why a job is as it is, as one page that needs nothing else and can be sent to a colleague."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from etcompile.diagnostics.redaction import shown
from etcompile.failures import Failure
from etcompile.goodput import Timeline
from etcompile.status.text import age, lasting
from etcompile.status.why.explanation import Explanation
from etcompile.status.why.replica_grid import Grid, Outcome, Row, replica_grid
from etcompile.status.why.text import (
    goodput_line,
    headline_parts,
    of_what,
    restarts_line,
    tail_of,
    told,
    waiting_lines,
    warned_line,
    what_followed,
)
from etcompile.webpage import document, escaped

_STYLE = """\
.asof, .note, dt, caption { color: var(--soft) }
.asof, .goodput { margin: 4px 0 0 }
main h2 { display: block; margin-bottom: 6px }
.first { border-left: 4px solid var(--gone); padding: 2px 0 2px 14px }
.todo { border-left: 4px solid var(--focus); padding: 2px 0 2px 14px }
.waits { border-left: 4px solid var(--change); padding: 2px 0 2px 14px }
section > p, section li { overflow-wrap: anywhere; max-width: 100ch; margin: 8px 0 }
section ul { padding-left: 20px; margin: 8px 0 }
.cause { font-size: 16px; font-weight: 600 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 8px 0 }
dd { margin: 0; overflow-wrap: anywhere }
pre { margin: 8px 0; padding: 10px 12px; overflow: auto; max-height: 60vh; tab-size: 8;
  background: var(--panel); border: 1px solid var(--line); border-radius: 6px;
  font: 12px/1.55 var(--mono) }
.scroll { overflow-x: auto; margin: 8px 0; position: relative }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: 4px 16px 4px 0; vertical-align: top; font-weight: 400 }
thead th { color: var(--soft); border-bottom: 1px solid var(--line); white-space: nowrap }
td.words { min-width: 24ch; overflow-wrap: anywhere }
.number { text-align: right }
.nowrap { white-space: nowrap }
.strip { display: block; width: 100%; height: 46px; border: 1px solid var(--line);
  border-radius: 6px; background: var(--panel) }
.strip .training { fill: var(--new) }
.strip .line { stroke: var(--ink); stroke-width: 1 }
.strip .failure { stroke: var(--gone); stroke-width: 3 }
.strip text { fill: var(--ink); font-size: 12px }
section > p.ends { max-width: none; margin-top: 2px }
.ends span:last-child { text-align: right }
.ends { display: flex; justify-content: space-between; gap: 16px;
  color: var(--soft) }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0; padding: 0;
  list-style: none }
.legend li { margin: 0 }
.swatch { display: inline-block; min-width: 30px; text-align: center; border-radius: 3px;
  margin-right: 6px; line-height: 18px; height: 18px; vertical-align: -3px }
.swatch.training { background: var(--new) }
.swatch.pause { background: var(--panel); border: 1px solid var(--line) }
.swatch.failure { min-width: 4px; background: var(--gone) }
.grid th, .grid td { padding: 1px 2px; text-align: center; vertical-align: middle }
.grid thead th:first-child, .grid tbody th { text-align: left; padding-right: 12px;
  min-width: 16ch; max-width: 34ch; overflow-wrap: anywhere }
.grid thead th:last-child, .grid .node { text-align: left; padding-left: 12px;
  color: var(--soft); white-space: nowrap }
.grid .swatch { margin: 0 }
.o-first { background: var(--gone); color: var(--ground); font-weight: 700 }
.o-failed { background: var(--change-ground); color: var(--change); box-shadow: inset 0 0 0 1px }
.o-ended { background: var(--panel); color: var(--soft) }
.o-ready, .o-done { background: var(--new-ground); color: var(--new) }
.o-waiting { background: var(--ground); color: var(--soft); box-shadow: inset 0 0 0 1px }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap }
@media print {
  :root { --panel: #ffffff }
  body { max-width: none; padding: 0; print-color-adjust: exact }
  pre { max-height: none; white-space: pre-wrap; overflow-wrap: anywhere }
  .scroll { overflow: visible }
  .grid .node { white-space: normal; overflow-wrap: anywhere }
  section { break-inside: avoid-page }
}
"""
_SIGNS: dict[Outcome, tuple[str, str]] = {
    "first": ("1st", "failed first"),
    "failed": ("\N{MULTIPLICATION SIGN}", "failed after another one"),
    "ended": ("\N{MIDDLE DOT}", "ended with the attempt; nothing else is known"),
    "ready": ("\N{CHECK MARK}", "is ready"),
    "waiting": ("\N{HORIZONTAL ELLIPSIS}", "is not ready yet"),
    "done": ("\N{WHITE SQUARE}", "has succeeded"),
}
_WIDE_ENOUGH = 5.0
"""Percent of the width in which the number of an attempt can be read."""


def explanation_page(why: Explanation, now: datetime, *, lines: int = 20, version: str = "") -> str:
    """Why a job is as it is, as an HTML document.

    Args:
        why: What is to be told.
        now: What ages count to.
        lines: So many of the last lines of what failed first are shown.
        version: The version of etcompile, for the foot of the page.
    """
    title, _ = headline_parts(why)
    found = document(title, _body(why, now, lines), style=_STYLE, version=version)
    return "\n".join(found) + "\n"


def _body(why: Explanation, now: datetime, lines: int) -> Iterator[str]:
    status = why.status
    head, because = headline_parts(why)
    yield f'<header><h1>{escaped(head)}</h1><p class="summary">{escaped(because)}</p>'
    if words := " ".join(filter(None, (goodput_line(why), restarts_line(why)))):
        yield f'<p class="goodput">{escaped(words)}</p>'
    yield f'<p class="asof">as of {now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC</p></header><main>'
    if why.last is not None:
        yield from _first(why, now, lines)
    if warned := warned_line(why):
        yield f'<p class="note">{escaped(warned)}</p>'
    if waiting := waiting_lines(why):
        yield '<section class="waits"><h2>What it waits for</h2><ul>'
        yield from (f"<li>{escaped(line)}</li>" for line in waiting)
        yield "</ul></section>"
    if why.advice:
        yield '<section class="todo"><h2>What to do</h2><ul>'
        yield from (f"<li>{escaped(line)}</li>" for line in why.advice)
        yield "</ul></section>"
    timeline = status.timeline
    if timeline is not None:
        yield "<section><h2>When it was in training</h2>"
        yield from _strip(why, timeline, now)
        yield "</section>"
    if why.attempts or timeline is not None:
        yield "<section><h2>Replicas by attempts</h2>"
        yield from _grid(replica_grid(why))
        yield "</section><section><h2>Attempts</h2>"
        yield from _attempts(why, timeline, now)
        yield "</section>"
    if why.nodes:
        yield "<section><h2>Nodes on which something failed by itself</h2>"
        yield from _nodes(why)
        yield "</section>"
    yield "</main>"


def _first(why: Explanation, now: datetime, lines: int) -> Iterator[str]:
    if why.last is None:
        return
    failure = why.last.first
    title = "What failed first" if why.over else "The last failure"
    yield f'<section class="first"><h2>{title}</h2>'
    yield f'<p class="cause">{escaped(f"{failure.pod}: it {failure.cause.text}")}</p><dl>'
    facts = {
        "node": failure.node or "never ran on one",
        "when": _moment(failure, now),
        "how": shown(failure.how),
        "container": failure.container,
        "attempt": str(why.last.number + 1),
        "whose fault": _FAULT.get(failure.cause.blame, failure.cause.blame),
    }
    for name, words in facts.items():
        if words:
            yield f"<dt>{name}</dt><dd>{escaped(words)}</dd>"
    yield "</dl>"
    if tail := tail_of(failure, lines):
        yield "<p>Its last lines:</p>"
        # Who uses the keyboard must be able to scroll it.
        yield '<pre tabindex="0" aria-label="The last lines">' + escaped("\n".join(tail)) + "</pre>"
    elif not why.kept and not why.over:
        yield "<p>No watcher keeps what failed; this is what its Pod still says.</p>"
    if followed := what_followed(why.last):
        yield f"<p><b>What followed:</b> {escaped(followed)}</p>"
    yield "</section>"


_FAULT = {
    "program": "the program's",
    "platform": "the platform's",
    "node": "the node's",
    "peer": "another rank's",
    "unknown": "not known",
}


def _moment(failure: Failure, now: datetime) -> str:
    if not failure.at:
        return ""
    at = datetime.fromtimestamp(failure.at, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC, {age(at.isoformat(), now)} ago"


# When it was in training ------------------------------------------------------------------------


def _strip(why: Explanation, timeline: Timeline, now: datetime) -> Iterator[str]:
    """Time from left to right: when it was in training, where attempts begin, what failed first."""
    begin = timeline.began
    end = max(timeline.attempts[-1].ended or now.timestamp(), begin + 1.0)

    def place(at: float) -> float:
        return 100.0 * (min(max(at, begin), end) - begin) / (end - begin)

    training = goodput_line(why)
    label = f"{training} The table of attempts below says the same."
    yield f'<svg class="strip" role="img" aria-label="{escaped(label)}">'
    for since, until in timeline.times:
        width = max(0.1, place(until) - place(since))
        yield (
            f'<rect class="training" x="{place(since):.2f}%" y="20" width="{width:.2f}%"'
            ' height="26"/>'
        )
    for attempt in timeline.attempts:
        at, until = place(attempt.began), place(attempt.ended or end)
        if attempt is not timeline.attempts[0]:
            yield f'<line class="line" x1="{at:.2f}%" x2="{at:.2f}%" y1="0" y2="46"/>'
        if until - at >= _WIDE_ENOUGH:
            middle = (at + until) / 2
            yield (
                f'<text x="{middle:.2f}%" y="14" text-anchor="middle">{attempt.number + 1}</text>'
            )
    for failed in why.attempts:
        if begin <= failed.first.at <= end:
            at = place(failed.first.at)
            yield f'<line class="failure" x1="{at:.2f}%" x2="{at:.2f}%" y1="20" y2="46"/>'
    yield "</svg>"
    yield f'<p class="ends"><span>{_stamp(begin)}</span><span>{_stamp(end)}</span></p>'
    yield '<ul class="legend"><li><span class="swatch training"></span>in training</li>'
    yield '<li><span class="swatch pause"></span>not in training</li>'
    yield '<li><span class="swatch failure"></span>something failed first</li>'
    yield "<li>numbers are attempts</li></ul>"
    if timeline.before:
        words = f"Not drawn: {lasting(timeline.before)} in training before the first green bar."
        yield f'<p class="note">{words}</p>'


def _stamp(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _attempts(why: Explanation, timeline: Timeline | None, now: datetime) -> Iterator[str]:
    kept = {attempt.number: attempt for attempt in timeline.attempts} if timeline else {}
    firsts = {attempt.number: attempt for attempt in why.attempts}
    head = ("attempt", "what ended it", "lasted", "in training", "began (UTC)")
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Attempts"><table>'
    yield _head(head)
    for number in sorted({*kept, *firsts}, reverse=True):
        attempt, first = kept.get(number), firsts.get(number)
        cells = [f'<th scope="row">{number + 1}</th>']
        if attempt is not None and timeline is not None:
            end = attempt.ended or now.timestamp()
            trained = sum(
                max(0.0, min(until, end) - max(since, attempt.began))
                for since, until in timeline.times
            )
            began = f"{datetime.fromtimestamp(attempt.began, UTC):%Y-%m-%d %H:%M:%S}"
            times = (lasting(max(0.0, end - attempt.began)), lasting(trained), began)
        else:
            times = ("", "", "")
        words = told(first.first, now) if first is not None else attempt.why if attempt else ""
        if attempt is not None and not attempt.ended:
            words = f"it goes on; last: {words}" if words else "it goes on"
        cells.append(f'<td class="words">{escaped(words)}</td>')
        cells += [f'<td class="nowrap">{escaped(cell)}</td>' for cell in times]
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _head(names: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead><tbody>"


# Replicas by attempts ---------------------------------------------------------------------------


def _grid(grid: Grid) -> Iterator[str]:
    if words := _left_out(grid):
        yield f'<p class="note">{escaped(words)}</p>'
    used = {outcome for row in grid.rows for outcome in row.outcomes}
    yield '<ul class="legend">'
    for outcome, (sign, words) in _SIGNS.items():
        if outcome in used:
            yield f'<li><span class="swatch o-{outcome}">{sign}</span>{words}</li>'
    yield "</ul>"
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Replicas by attempts">'
    yield '<table class="grid">'
    yield _head(("replica", *map(str, grid.attempts), "node"))
    yield from map(_row, grid.rows)
    yield "</tbody></table></div>"


def _left_out(grid: Grid) -> str:
    """What has no row and no column of its own."""
    parts = []
    if grid.together:
        parts.append(
            f"Replicas of which a failure is kept have a row each; the other {grid.together} "
            "share a row with those of their role of which the same is known."
        )
    if grid.earlier:
        attempts = "The first attempt is" if grid.earlier == 1 else _first_attempts(grid.earlier)
        parts.append(f"{attempts} not drawn.")
    return " ".join(parts)


def _first_attempts(count: int) -> str:
    return f"The first {count} attempts are"


def _row(row: Row) -> str:
    count = f" ({row.count})" if row.count > 1 else ""
    cells = [f'<th scope="row">{escaped(row.name)}{count}</th>']
    for outcome in row.outcomes:
        sign, words = _SIGNS[outcome]
        cells.append(
            f'<td><span class="swatch o-{outcome}" title="{words}" aria-hidden="true">{sign}</span>'
            f'<span class="unseen">{words}</span></td>'
        )
    return f'<tr>{"".join(cells)}<td class="node">{escaped(row.node)}</td></tr>'


def _nodes(why: Explanation) -> Iterator[str]:
    yield '<div class="scroll" tabindex="0" role="region" aria-label="Nodes"><table>'
    yield _head(("node", "failures", "of what"))
    for node, causes in why.nodes:
        words = escaped(of_what(why, node, causes))
        yield (
            f'<tr><th scope="row">{escaped(node)}</th>'
            f'<td class="number">{sum(causes.values())}</td><td>{words}</td></tr>'
        )
    yield "</tbody></table></div>"
