"""How long a gang takes from the death of a rank to its next step, in place and by new Pods.

    ETCOMPILE_E2E_KUBECONFIG=~/.kube/config ETCOMPILE_E2E_TORCH_IMAGE=… \\
    python benchmarks/recovery.py [--kills 8] [--ranks 8] [--only quick] [--by delete] [--no-docs]

Needs a cluster with a node, as the tests of `tests/node` do. In turns it runs the same gang in each
way, with the watcher as a process of its own, and kills one rank after the other with -9, as its
node does, or deletes one Pod after the other (`--by delete`). Ranks say themselves when they begin
and when they complete a step. It prints its figures, writes them into docs/benchmarks.md, and draws
docs/benchmarks-recovery.svg.
"""

import argparse
import contextlib
import json
import math
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from figures import measured_on, short_table, write_figures  # noqa: E402
from peers import on_a_node  # noqa: E402

from node.real_cluster import Cluster  # noqa: E402
from node.real_gang import Gang, Watcher, forgetful, read_step  # noqa: E402
from waiting import eventually  # noqa: E402

DOCS = ROOT / "docs"
IMAGE = "ETCOMPILE_E2E_TORCH_IMAGE"
"""The variable that names an image with python3 and torch."""
LONGEST = 300.0
"""Seconds for which a step is awaited."""
FORGET = 2.0
"""Seconds after which a restart is the first of another row, so that none has to back off."""

PROGRAMS: dict[str, tuple[str, dict[str, str], int]] = {
    "quick": ("ends when it loses a peer", {"MEETS": "sockets"}, 5),
    "hangs": ("hangs when it loses a peer", {"MEETS": "sockets", "HANGS": "1"}, 30),
    "torch": ("torch, gloo", {"MEETS": "gloo"}, 5),
}
"""Of each program a title, its environment, and the grace period of its Pods."""


class Way:
    """Who restarts a gang, and how.

    Attributes:
        title: In a word or two.
        colour: In the picture.
        annotations: Of the job.
        makes_pods: All Pods are made again.
        fails: The programs that it does not bring back.
        backs_off: Kubelets start containers again, and wait before they do so a second time. Each
            kill is the first of a gang then.
    """

    title, colour = "new Pods", "#c2571a"
    annotations: Mapping[str, str] = {"etcompile.dev/restart-together": "true"}
    makes_pods = True
    fails: tuple[str, ...] = ()
    backs_off = False

    def gang(self, cluster: Cluster, image: str, ranks: int, grace: int, **variables: str) -> Gang:
        """The gang."""
        return Gang(cluster, image, self.annotations, size=ranks, grace=grace, **variables)

    @contextlib.contextmanager
    def keeper(self, cluster: Cluster, folder: Path) -> Iterator[None]:
        """Whoever looks after the gang, for as long as it runs."""
        log = folder / f"{cluster.namespace}.log"
        watcher = Watcher(cluster.namespace, log, FORGET)
        try:
            yield
        except AssertionError:
            print(log.read_text())
            raise
        finally:
            watcher.stop()


class InPlace(Way):
    """Our watcher, in place."""

    title, colour = "in place", "#0b6e4f"
    annotations = {"etcompile.dev/restart": "in-place"}  # noqa: RUF012
    makes_pods = False


class Kubelet(Way):
    """Nobody but the kubelets, which start containers again that end because they lose a peer."""

    title, colour = "kubelet", "#666666"
    annotations = {}  # noqa: RUF012
    makes_pods = False
    fails = ("hangs",)
    backs_off = True

    def keeper(
        self,
        cluster: Cluster,  # noqa: ARG002
        folder: Path,  # noqa: ARG002
    ) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class OperatorGang(Gang):
    """The same PyTorchJob for the Training Operator."""

    restart_policy = "OnFailure"

    def submit(self) -> None:
        for replicas in self.document["spec"]["pytorchReplicaSpecs"].values():
            replicas["restartPolicy"] = self.restart_policy
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(self.document))


class Operator(Way):
    """The Training Operator: kubelets start containers again, and it does nothing."""

    title, colour = "Training Operator, OnFailure", "#4a5fc1"
    makes_pods = False
    fails = ("hangs",)  # only the container that was killed is started again
    backs_off = True
    restart_policy = "OnFailure"

    def gang(self, cluster: Cluster, image: str, ranks: int, grace: int, **variables: str) -> Gang:
        # A code that its policy ExitCode takes for one to be retried.
        gang = OperatorGang(cluster, image, {}, size=ranks, grace=grace, LOST="138", **variables)
        gang.restart_policy = self.restart_policy
        return gang

    @contextlib.contextmanager
    def keeper(self, cluster: Cluster, folder: Path) -> Iterator[None]:
        with on_a_node.training_operator(cluster, folder, os.environ[IMAGE]):
            yield


class OperatorMakesPods(Operator):
    """The Training Operator: Pods that have failed are deleted and made again."""

    title, colour = "Training Operator, ExitCode", "#8a4fb0"
    makes_pods = True
    fails = ("hangs",)  # only the Pod that was killed is made again
    backs_off = False
    restart_policy = "ExitCode"


class JobSetGang(Gang):
    """The same ranks as an indexed Job of a JobSet, whose Pods have other names each time."""

    job_set = staticmethod(on_a_node.job_set)

    def __init__(
        self, cluster: Cluster, image: str, size: int, grace: int, **variables: str
    ) -> None:
        super().__init__(cluster, image, {}, size=size, grace=grace, **variables)
        self.names = [f"gang-rank-0-{index}" for index in range(size)]

    def submit(self) -> None:
        replicas = self.document["spec"]["pytorchReplicaSpecs"]["Master"]
        value = self.job_set(replicas["template"]["spec"], len(self.names))
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(value))

    def pods(self) -> dict[str, Any]:
        by_name = {pod["spec"].get("hostname"): pod for pod in self.api_pods()}
        return {name: by_name[name] for name in self.names if name in by_name}

    def pod_name(self, name: str) -> str:
        return self.pods().get(name, {"metadata": {"name": name}})["metadata"]["name"]


class JobSet(Way):
    """JobSet: all Jobs of the set are deleted and made again."""

    title, colour = "JobSet, Recreate", "#a08a1a"

    def gang(self, cluster: Cluster, image: str, ranks: int, grace: int, **variables: str) -> Gang:
        return JobSetGang(cluster, image, ranks, grace, **variables)

    @contextlib.contextmanager
    def keeper(self, cluster: Cluster, folder: Path) -> Iterator[None]:
        with on_a_node.jobset(cluster, folder):
            yield


class JobSetGangInPlace(JobSetGang):
    """The same, whose containers are JobSet's agents."""

    job_set = staticmethod(on_a_node.job_set_in_place)

    def submit(self) -> None:
        on_a_node.allow_agents(self.cluster)
        super().submit()


class JobSetInPlace(JobSet):
    """JobSet: agents in the Pods end, kubelets start them again, and they wait for each other."""

    title, colour = "JobSet, InPlaceRestart", "#6b5900"
    makes_pods = False
    backs_off = True

    def gang(self, cluster: Cluster, image: str, ranks: int, grace: int, **variables: str) -> Gang:
        return JobSetGangInPlace(cluster, image, ranks, grace, **variables)


WAYS: tuple[Way, ...] = (
    InPlace(),
    Way(),
    Kubelet(),
    OperatorMakesPods(),
    Operator(),
    JobSet(),
    JobSetInPlace(),
)


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


def measured(program: str, way: Way, kills: int, ranks: int, folder: Path, by: str) -> Result:
    """Runs a gang, and kills one rank after the other."""
    draws = random.Random(time.time())
    load = os.getloadavg()[0]
    recoveries: list[Recovery] = []
    while len(recoveries) < kills:
        more = 1 if way.backs_off else kills
        recoveries += killed(program, way, more, ranks, folder, draws, by)
    return Result(program, way.title, recoveries, load)


def killed(
    program: str, way: Way, kills: int, ranks: int, folder: Path, draws: random.Random, by: str
) -> list[Recovery]:
    """What some kills of one gang cost."""
    name = "-".join(way.title.lower().replace(",", "").split())
    cluster = Cluster(f"etcompile-recovery-{name}-{program}")
    cluster.kubectl("delete", "namespace", cluster.namespace, "--ignore-not-found")
    cluster.kubectl("create", "namespace", cluster.namespace)
    _, variables, grace = PROGRAMS[program]
    gang = way.gang(cluster, os.environ[IMAGE], ranks, grace, PAUSE="0.1", **variables)
    try:
        with way.keeper(cluster, folder):
            with forgetful(FORGET):
                gang.apply()
            gang.until_step_of(0.0, LONGEST)
            gang.prepare()
            time.sleep(5)
            return [one_kill(gang, way, draws, by) for _ in range(kills)]
    finally:
        cluster.kubectl("delete", "namespace", cluster.namespace)


def one_kill(gang: Gang, way: Way, draws: random.Random, by: str) -> Recovery:
    """Kills a rank or deletes its Pod, and waits until all have gone on for a while."""
    name = draws.choice(gang.names)
    before = set(gang.uids().values())
    if by == "kill":
        killed = gang.kill(name, "process")
        assert killed is not None
    else:
        gang.delete(gang.pod_name(name))
        killed = time.time()
    time.sleep(2)  # ranks say when they began: whoever asks only takes their processors
    if way.makes_pods:
        # Kubelets start the containers again at once, the first time. What that makes of the run
        # ends when the Pods go.
        eventually(lambda: are_new(gang, before), LONGEST, gang.diagnosis)
    gang.until_step_of(killed, LONGEST)
    steps = []
    for each in gang.names:
        lines = [line for line in gang.lines(each) if line.startswith("step ")]
        steps += [step for step in map(read_step, lines) if step.since > killed]
    recovery = Recovery(
        max(step.since for step in steps) - killed, min(step.at for step in steps) - killed
    )
    print(f"  {name}: begun after {recovery.begun:.1f} s, stepped after {recovery.stepped:.1f} s")
    sys.stdout.flush()
    time.sleep(FORGET + 4 + draws.uniform(0, 2))
    return recovery


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
        "| | way | median | 95th percentile | in place takes of it |",
        "|---|---|---:|---:|---:|",
    ]
    for program, (title, *_) in PROGRAMS.items():
        by_way = {result.way: result.recoveries for result in results if result.program == program}
        if not by_way:
            continue
        for what, attribute in (("all ranks begun", "begun"), ("next step", "stepped")):
            figures = {
                way: middle_and_most([getattr(one, attribute) for one in recoveries])
                for way, recoveries in by_way.items()
            }
            ours = figures.get(InPlace.title, (math.nan, math.nan))[0]
            for way, (median, most) in figures.items():
                ratio = "" if way == InPlace.title else f"{ours / median:.2f}"
                cells = (f"{title}: {what}", way, f"{median:.1f} s", f"{most:.1f} s", ratio)
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(results: Sequence[Result]) -> str:
    """Kill to step as an SVG: a row a program, a dot a way at its median, a line to the 95th."""
    left, width, top = 220, 520, 80
    row = 20 * len(WAYS) + 16
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
        y = top + row * number + row / 2 - 8
        title = PROGRAMS[program][0]
        parts.append(f'<text x="{left - 12}" y="{y + 4:.0f}" text-anchor="end">{title}</text>')
        ways = [result for result in results if result.program == program]
        for place, result in enumerate(ways):
            height = y + 20 * (place - (len(ways) - 1) / 2)
            median, most = middle_and_most([one.stepped for one in result.recoveries])
            colour = next(way.colour for way in WAYS if way.title == result.way)
            line = f'<path d="M{across(median):.1f} {height:.0f}H{across(most):.1f}" '
            dot = f'<circle cx="{across(median):.1f}" cy="{height:.0f}" r="6" fill="{colour}">'
            parts += [
                f'{line}stroke="{colour}" stroke-width="3"/>',
                f"{dot}<title>{result.way}: {median:.1f} s, {most:.1f} s</title></circle>",
            ]
    x, y = 20, 20
    for way in WAYS:
        if x + 12 + 7 * len(way.title) > left + width:
            x, y = 20, y + 20
        parts += [
            f'<circle cx="{x}" cy="{y}" r="6" fill="{way.colour}"/>',
            f'<text x="{x + 12}" y="{y + 4}">{way.title}</text>',
        ]
        x += 40 + 7 * len(way.title)
    return "\n".join([*parts, "</svg>"]) + "\n"


def figures_text(results: Sequence[Result], date: str, kills: int) -> str:
    """The figures as the page has them: medians from the kill to the next step."""
    medians = {
        (one.way, one.program): statistics.median(each.stepped for each in one.recoveries)
        for one in results
    }
    rows = [
        (way, *(f"{medians[way, p]:.1f} s" if (way, p) in medians else "" for p in PROGRAMS))
        for way in dict.fromkeys(one.way for one in results)
    ]
    measured = measured_on(date, max(result.load for result in results))
    summary = short_table(("", *(title for title, *_ in PROGRAMS.values())), rows)
    return f"{measured} Each median is of {kills} kills.\n\n{summary}"


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description="Times how a gang recovers from a dead rank.")
    parser.add_argument("--kills", type=int, default=8, help="kills of each way and program [8]")
    parser.add_argument("--ranks", type=int, default=8, help="ranks of the gang [8]")
    parser.add_argument("--turns", type=int, default=1, help="each way gets its kills in turns [1]")
    parser.add_argument("--by", choices=["kill", "delete"], default="kill")
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--only", default=",".join(PROGRAMS), help="only these programs")
    parser.add_argument("--way", default="", help="only ways whose title this expression finds")
    parser.add_argument("--no-docs", action="store_true", help="print, and write no file")
    arguments = parser.parse_args()
    results: dict[tuple[str, str], Result] = {}
    turns = [
        (turn, program) for turn in range(arguments.turns) for program in arguments.only.split(",")
    ]
    with tempfile.TemporaryDirectory() as folder:
        for turn, program in turns:
            for way in (way for way in WAYS if re.search(arguments.way, way.title)):
                if program in way.fails or (arguments.by == "delete" and way.backs_off):
                    continue
                print(f"{PROGRAMS[program][0]}, {way.title}:", flush=True)
                subfolder = Path(folder, f"{turn}-{program}-{way.title}")
                subfolder.mkdir()
                kills = math.ceil(arguments.kills / arguments.turns)
                one = measured(program, way, kills, arguments.ranks, subfolder, arguments.by)
                if (earlier := results.get((program, way.title))) is not None:
                    one = replace(one, recoveries=[*earlier.recoveries, *one.recoveries])
                results[program, way.title] = one
    every = [*results.values()]
    print(table(every))
    if not arguments.no_docs:
        write_figures(DOCS, "recovery", figures_text(every, arguments.date, arguments.kills))
        (DOCS / "benchmarks-recovery.svg").write_text(plot(every))


if __name__ == "__main__":
    main()
