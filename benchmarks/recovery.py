"""How long a gang takes from the death of a rank to its next step, in place and by new Pods.

    ETCOMPILE_E2E_KUBECONFIG=~/.kube/config ETCOMPILE_E2E_TORCH_IMAGE=… \\
    python benchmarks/recovery.py [--kills 8] [--ranks 8] [--only quick] [--no-docs]

Needs a cluster with a node, as the tests of `tests/node` do. One after the other it runs the same
gang in each way, with the watcher as a process of its own, and kills one rank after the other with
-9, as its node does. Ranks say themselves when they begin and when they complete a step. It prints
its figures and writes docs/benchmarks-recovery.md and docs/benchmarks-recovery.svg.
"""

import argparse
import math
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import etcompile  # noqa: E402
from node.real_cluster import Cluster  # noqa: E402
from node.real_gang import Gang, Watcher, eventually, read_step  # noqa: E402

DOCS = ROOT / "docs"
LONGEST = 300.0
"""Seconds for which a step is awaited."""
FORGET = 2.0
"""Seconds after which a restart is the first of another row, so that none has to back off."""

PROGRAMS = {
    "quick": ("a program that starts quickly", {"MEETS": "sockets"}),
    "torch": ("a program that imports torch", {"MEETS": "gloo"}),
}
WAYS = {
    "in place": {"etcompile.dev/restart": "in-place"},
    "new Pods": {"etcompile.dev/restart-together": "true"},
}
COLOURS = {"in place": "#0b6e4f", "new Pods": "#c2571a"}


@dataclass(frozen=True)
class Recovery:
    """What one kill cost.

    Args:
        begun: Seconds until the last rank had begun again.
        stepped: Seconds until the next step was complete.
    """

    begun: float
    stepped: float


@dataclass(frozen=True)
class Result:
    """All kills of one way, with one program."""

    program: str
    way: str
    recoveries: list[Recovery]
    load: float


def measured(program: str, way: str, kills: int, ranks: int, folder: Path) -> Result:
    """Runs a gang, and kills one rank after the other."""
    cluster = Cluster(f"etcompile-recovery-{way.replace(' ', '-').lower()}-{program}")
    cluster.kubectl("delete", "namespace", cluster.namespace, "--ignore-not-found")
    cluster.kubectl("create", "namespace", cluster.namespace)
    draws = random.Random(17)
    image = os.environ["ETCOMPILE_E2E_TORCH_IMAGE"]
    gang = Gang(cluster, image, WAYS[way], size=ranks, PAUSE="0.1", **PROGRAMS[program][1])
    log = folder / f"{cluster.namespace}.log"
    watcher = Watcher(cluster.namespace, log, FORGET)
    try:
        gang.apply()
        gang.until_step_of(0.0, LONGEST)
        if way == "in place":
            gang.until_watched(LONGEST)
        gang.prepare()
        time.sleep(5)
        load = os.getloadavg()[0]
        found = [one_kill(gang, way, draws) for _ in range(kills)]
    except AssertionError:
        print(log.read_text())
        raise
    finally:
        watcher.stop()
        cluster.kubectl("delete", "namespace", cluster.namespace)
    return Result(program, way, found, load)


def one_kill(gang: Gang, way: str, draws: random.Random) -> Recovery:
    """Kills a rank, and waits until all have gone on for a while."""
    name = draws.choice(gang.names)
    before = set(gang.uids().values())
    killed = gang.kill(name, "process")
    assert killed is not None
    if way == "new Pods":
        # Kubelets start the containers again at once, the first time. What that makes of the run
        # ends when the Pods go.
        eventually(lambda: are_new(gang, before), LONGEST, gang.told)
    gang.until_step_of(killed, LONGEST)
    steps = []
    for each in gang.names:
        lines = [line for line in gang.lines(each, "--since=300s") if line.startswith("step ")]
        steps += [step for step in map(read_step, lines) if step.since > killed]
    found = Recovery(
        max(step.since for step in steps) - killed, min(step.at for step in steps) - killed
    )
    print(f"  {name}: begun after {found.begun:.1f} s, stepped after {found.stepped:.1f} s")
    sys.stdout.flush()
    time.sleep(FORGET + 4 + draws.uniform(0, 2))
    return found


def are_new(gang: Gang, before: set[str]) -> bool:
    """Whether all Pods are there, and none of those before."""
    now = gang.uids()
    return len(now) == len(gang.names) and not before & set(now.values())


def middle_and_most(values: Sequence[float]) -> tuple[float, float]:
    """The median, and the 95th percentile: what at most one in twenty exceeds."""
    return statistics.median(values), sorted(values)[math.ceil(0.95 * len(values)) - 1]


def table(results: Sequence[Result]) -> str:
    """The figures as Markdown."""
    lines = [
        "| | in place | new Pods | ratio of medians |",
        "|---|---:|---:|---:|",
    ]
    for program, (title, _) in PROGRAMS.items():
        own = {result.way: result.recoveries for result in results if result.program == program}
        if own.keys() != WAYS.keys():
            continue
        for what, attribute in (("all ranks begun", "begun"), ("next step", "stepped")):
            figures = [
                middle_and_most([getattr(one, attribute) for one in own[way]]) for way in WAYS
            ]
            cells = [f"{median:.1f} s, {most:.1f} s" for median, most in figures]
            ratio = figures[0][0] / figures[1][0]
            lines.append(f"| {title}: {what} | {' | '.join(cells)} | {ratio:.2f} |")
    return "\n".join(lines)


def plot(results: Sequence[Result]) -> str:
    """Kill to step as an SVG: a row a program, a dot a way at its median, a line to the 95th."""
    left, width, row, top = 220, 480, 56, 50
    every = [one.stepped for result in results for one in result.recoveries]
    tick = next(t for t in (1, 2, 5, 10, 20, 50, 100) if max(every) / t <= 8)
    high = math.ceil(max(every) / tick) * tick
    programs = [name for name in PROGRAMS if any(one.program == name for one in results)]
    bottom = top + row * len(programs)

    def across(seconds: float) -> float:
        return left + width * seconds / high

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 40} {bottom + 40}">',
        "<style>text { font: 12px sans-serif }</style>",
        "<title>From the death of a rank to the next step, median and 95th percentile</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for seconds in range(0, high + 1, tick):
        x = across(seconds)
        parts += [
            f'<path d="M{x:.1f} {top - 10}V{bottom}" stroke="#dddddd"/>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{seconds} s</text>',
        ]
    for number, program in enumerate(programs):
        y = top + row * number + row / 2 - 5
        title = PROGRAMS[program][0]
        parts.append(f'<text x="{left - 12}" y="{y + 4:.0f}" text-anchor="end">{title}</text>')
        for result in results:
            if result.program != program:
                continue
            own = y + (-9 if result.way == "in place" else 9)
            median, most = middle_and_most([one.stepped for one in result.recoveries])
            colour = COLOURS[result.way]
            line = f'<path d="M{across(median):.1f} {own:.0f}H{across(most):.1f}" '
            dot = f'<circle cx="{across(median):.1f}" cy="{own:.0f}" r="6" fill="{colour}">'
            parts += [
                f'{line}stroke="{colour}" stroke-width="3"/>',
                f"{dot}<title>{result.way}: {median:.1f} s, {most:.1f} s</title></circle>",
            ]
    x = left
    for way, colour in COLOURS.items():
        parts += [
            f'<circle cx="{x}" cy="20" r="6" fill="{colour}"/>',
            f'<text x="{x + 12}" y="24">{way}</text>',
        ]
        x += 135
    return "\n".join([*parts, "</svg>"]) + "\n"


def page(results: Sequence[Result], date: str, kills: int, ranks: int) -> str:
    """The page of the documentation."""
    loads = [result.load for result in results]
    return f"""\
# How long a run stands still when a rank dies

From the moment at which one of {ranks} ranks is killed with -9 until all ranks have begun again,
and until the next step is complete, as the ranks say themselves: `python benchmarks/recovery.py`,
on a Kubernetes of one real node (kubelet, containerd). [In place](recovery.md), the command runs
again in the Pods that are there; with `etcompile.dev/restart-together: "true"` all Pods of the gang
are made again. Both by our watcher, one after the other on the same node. Each cell has the median
and the 95th percentile.

Measured on {date}, on {os.cpu_count()} cores ({platform.system()}, {platform.machine()}) that hold
the node, all ranks and the watcher, and were shared with other work: the load average was
{min(loads):.0f} to {max(loads):.0f}. {kills} kills a cell, so the 95th percentile is the longest of
them. etcompile {etcompile.__version__}.

{table(results)}

![From kill to the next step, median and 95th percentile](benchmarks-recovery.svg)

- A program that starts quickly shows the restart itself. What importing torch takes, {ranks} times
  on these cores at once, comes on top in both ways; elsewhere ranks do not share cores.
- All images are on the node already, the Pods ask for no device and mount no network volume. Each
  of these adds to what new Pods take, and nothing to a restart in place.
- The ranks end at once when they are told to (`TERM`). A program that does not hear it, as process
  1 by default, makes new Pods wait for its `terminationGracePeriodSeconds` besides.
- With `restartPolicy: OnFailure` kubelets start containers that have ended again in the old Pods at
  once, for the first time. Steps of these are not counted: nothing keeps ranks of before and after
  apart there, and the watcher makes the Pods again.
- Kills count as the first of a row each, so nobody waits for a back-off.
"""


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description="Times how a gang recovers from a dead rank.")
    parser.add_argument("--kills", type=int, default=8, help="kills of each way and program [8]")
    parser.add_argument("--ranks", type=int, default=8, help="ranks of the gang [8]")
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--only", default="", help="only this program: quick or torch")
    parser.add_argument("--no-docs", action="store_true", help="print, and write no file")
    given = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for program in (name for name in PROGRAMS if given.only in name):
            for way in WAYS:
                print(f"{PROGRAMS[program][0]}, {way}:", flush=True)
                results.append(measured(program, way, given.kills, given.ranks, Path(folder)))
    print(table(results))
    if not given.no_docs:
        text = page(results, given.date, given.kills, given.ranks)
        (DOCS / "benchmarks-recovery.md").write_text(text)
        (DOCS / "benchmarks-recovery.svg").write_text(plot(results))


if __name__ == "__main__":
    main()
