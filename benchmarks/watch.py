"""How fast the watcher replaces what fails, and what that costs, beside the Training Operator.

    python benchmarks/watch.py [--alone 60] [--rounds 3] [--no-docs]

Starts etcd and kube-apiserver (built once, as for the tests) for each of them in turn, fills a
namespace with 20 jobs of 50 Pods, runs whoever replaces them as a process of its own, and lets Pods
fail: alone, and many in the same moment. Then the watcher alone with ten times the Pods. It prints
its figures and writes them into docs/benchmarks.md. The Training Operator is built once, with Go.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from failing import ROOT, Bench, at_once
from figures import measured_on, short_table, write_figures
from peers.training_operator import TrainingOperator

from controlplane.binaries import binaries
from controlplane.server import ControlPlane

KILLED = ((200, 1), (200, 16))
"""How many Pods fail at once, and how many kubelets tell of it side by side."""
TARGETS = {"one at a time": "≤ 30 ms, p99 ≤ 100 ms"}
TARGETS |= {at_once(*killed): "≤ 500 ms" for killed in KILLED}


def measured(
    kind: type[Bench], pods: int, jobs: int, alone: int, kill: Sequence[tuple[int, int]]
) -> dict:
    """What somebody makes of failures, on an API server of its own."""
    print(f"{kind.title}, {pods} Pods:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder), binaries(print))
        try:
            return kind(plane, jobs, pods).measure(alone, kill)
        finally:
            plane.stop()


def middle(rounds: list[dict], what: str, figure: str) -> float:
    """The middle of a figure over all rounds."""
    return statistics.median(
        one[figure] for result in rounds for one in result["failures"] if one["title"] == what
    )


def table(ours: list[dict], theirs: list[dict], large: dict) -> str:
    """The figures as Markdown."""

    def cell(rounds: list[dict], what: str) -> str:
        median, p99, writes = (middle(rounds, what, one) for one in ("median", "p99", "writes"))
        return f"{median * 1000:.0f} ms, {p99 * 1000:.0f} ms, {writes:.1f}"

    lines = [
        "| failures | watcher | Training Operator | ratio of medians | target |",
        "|---|---:|---:|---:|---|",
    ]
    for what in [one["title"] for one in ours[0]["failures"] if "median" in one]:
        ratio = middle(ours, what, "median") / middle(theirs, what, "median")
        target = TARGETS.get(what, "")
        row = (f"{what}, 1,000 Pods", cell(ours, what), cell(theirs, what), f"{ratio:.2f}", target)
        lines.append(f"| {' | '.join(row)} |")
    lines.append(
        f"| one at a time, 10,000 Pods | {cell([large], 'one at a time')} | | | p99 ≤ 1 s |"
    )
    memory = [max(one["megabytes"] for one in rounds) for rounds in (ours, theirs, [large])]
    lines.append(
        "| memory at most, 1,000 Pods | {:.0f} MB | {:.0f} MB | | ≤ 90 MB |".format(*memory)
    )
    lines.append(f"| memory at most, 10,000 Pods | {memory[2]:.0f} MB | | | ≤ 150 MB |")
    return "\n".join(lines)


def figures_text(
    ours: list[dict], theirs: list[dict], large: dict, bare: list[float], load: float
) -> str:
    """The figures as the page has them."""

    def times(rounds: list[dict], what: str) -> str:
        return " / ".join(f"{middle(rounds, what, one) * 1000:.0f} ms" for one in ("median", "p99"))

    titles = [one["title"] for one in ours[0]["failures"] if "median" in one]
    memory = [max(one["megabytes"] for one in rounds) for rounds in (ours, theirs, [large])]
    rows = [
        *((f"{one}, 1,000 Pods", times(ours, one), times(theirs, one)) for one in titles),
        ("one at a time, 10,000 Pods", times([large], "one at a time"), ""),
        ("memory, 1,000 Pods", f"{memory[0]:.0f} MB", f"{memory[1]:.0f} MB"),
        ("memory, 10,000 Pods", f"{memory[2]:.0f} MB", ""),
    ]
    measured = measured_on(time.strftime("%Y-%m-%d"), load, "Training Operator 1.9.4")
    table_text = short_table(("failures", "watcher", "Training Operator"), rows)
    alone = f"{min(bare):.2f} to {max(bare):.2f} s"
    return f"""\
{measured} Each figure is the middle of {len(ours)} rounds.

{table_text}

With nobody watching, deleting and creating 200 Pods takes {alone} on this machine."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--alone", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-docs", action="store_true")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(measured(Bench, 1000, 20, arguments.alone, KILLED))
        theirs.append(measured(TrainingOperator, 1000, 20, arguments.alone, KILLED))
    large = measured(Bench, 10_000, 20, arguments.alone, [])
    shown = table(ours, theirs, large)
    print(shown)
    bare = [one["all"] for result in ours for one in result["failures"] if "all" in one]
    if not arguments.no_docs:
        text = figures_text(ours, theirs, large, bare, load)
        write_figures(ROOT / "docs", "watch", text)


if __name__ == "__main__":
    main()
