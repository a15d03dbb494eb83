"""How long a rollout takes, in turns with kubectl doing the same to the same API server.

Times whole processes: wall clock, processor time and peak memory. Both apply the objects that one
spec renders to, each into namespaces of its own of a real kube-apiserver, which this starts as the
tests do: directly, and through a proxy (`delay.go`) that makes it as far away as clusters of users
are. It has no kubelet, so nothing waits for Pods.

    python benchmarks/apply.py [--date YYYY-MM-DD] [--workers N] [--many N] [--rounds N]
                               [--away MS] [--no-docs]

It prints its table and writes its figures into docs/benchmarks.md. kubectl is the one that was
built with the API server, else that on PATH.
"""

import argparse
import compileall
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from figures import measured_on, short_table, write_figures  # noqa: E402

from controlplane.binaries import binaries  # noqa: E402
from controlplane.server import ControlPlane  # noqa: E402
from gobuilds import go  # noqa: E402

SPEC = """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata: {{ name: bert }}
spec:
  etReplicaSpecs:
    launcher:
      template:
        spec:
          containers:
            - name: train
              image: horovod/horovod:0.28.1
              command: [horovodrun, -np, "8", --min-np, "8", --host-discovery-script,
                        /etc/edl/discover_hosts.sh, python, train.py]
    worker:
      replicas: {workers}
      template:
        spec:
          containers:
            - name: train
              image: {image}
              resources: {{ limits: {{ cpu: "4", memory: 16Gi, nvidia.com/gpu: "1" }} }}
"""


IMAGE = "horovod/horovod:0.28.1"


@dataclass(frozen=True)
class Timing:
    """What a process took: seconds of wall clock and of processors, megabytes, and requests."""

    seconds: float
    processor: float
    megabytes: float
    requests: int = 0

    def __str__(self) -> str:
        return (
            f"{self.seconds:.2f} s ({self.processor:.2f} s of processors),"
            f" {self.megabytes:.0f} MB, {self.requests:,} requests"
        )


def middle(rounds: Sequence[Timing]) -> Timing:
    """The median of each figure."""
    columns = zip(*(astuple(one) for one in rounds), strict=True)
    seconds, processor, megabytes, requests = map(statistics.median, columns)
    return Timing(seconds, processor, megabytes, round(requests))


def timed(command: Sequence[str], environment: dict[str, str], codes: Sequence[int]) -> Timing:
    """Runs a command; it must end with one of these codes."""
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in codes:
            output.seek(0)
            ending = output.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{ending}")
    return Timing(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class Bench:
    """One API server and the two that talk to it."""

    def __init__(self, folder: Path, plane: ControlPlane, kubectl: str) -> None:
        self.folder = folder
        self.plane = plane
        self.kubectl = kubectl

    def job(self, workers: int, image: str = IMAGE) -> tuple[Path, Path]:
        """A spec, and what it renders to."""
        spec, rendered = self.folder / f"{workers}.yaml", self.folder / f"{workers}-rendered.yaml"
        spec.write_text(SPEC.format(workers=workers, image=image))
        with rendered.open("wb") as output:
            subprocess.run([*ETCOMPILE, "render", spec], stdout=output, check=True)
        return spec, rendered

    def ours(self, where: Path, *arguments: str | Path, codes: Sequence[int] = (0,)) -> Timing:
        """etcompile, with a kubeconfig."""
        return self._timed([*ETCOMPILE, *map(str, arguments)], where, codes, "etcompile")

    def theirs(self, where: Path, *arguments: str | Path, codes: Sequence[int] = (0,)) -> Timing:
        """kubectl, with a kubeconfig."""
        return self._timed([self.kubectl, *map(str, arguments)], where, codes, "kubectl")

    def _timed(
        self, command: Sequence[str], where: Path, codes: Sequence[int], agent: str
    ) -> Timing:
        before = self.plane.requests(agent)
        timing = timed(command, {"KUBECONFIG": str(where)}, codes)
        return replace(timing, requests=self.plane.requests(agent) - before)

    def namespace(self, server: str) -> Path:
        """A kubeconfig for a new namespace."""
        name = self.plane.namespace()
        return self.plane.kubeconfig(token="admin-token", namespace=name, server=server)


ETCOMPILE = (sys.executable, "-m", "etcompile")


@dataclass(frozen=True)
class Row:
    """What was done, how long etcompile and kubectl took, and the target of the ratio."""

    title: str
    ours: Timing
    theirs: Timing
    target: str


@contextlib.contextmanager
def delayed(folder: Path, server: str, milliseconds: float) -> Iterator[str]:
    """The URL of a server that is so far away: a request and its answer take so much longer."""
    program = folder / "delay"
    source = Path(__file__).with_name("delay.go")
    subprocess.run([go(), "build", "-o", program, source], check=True)
    address = server.removeprefix("https://")
    command = [str(program), address, f"{milliseconds / 2}ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"https://{process.stdout.readline().strip()}"
        finally:
            process.kill()


def figures(bench: Bench, workers: int, many: int, rounds: int, away: float) -> list[Row]:
    """All figures."""
    # As installed: not compiled anew by each process.
    compileall.compile_dir(ROOT / "etcompile", quiet=2)
    spec, rendered = bench.job(workers)
    rows = []
    with delayed(bench.folder, bench.plane.server, away) as far:
        places = (
            (bench.plane.server, "", ("≤ 0.45, processors ≤ 0.7", "", "")),
            (far, f", {away:g} ms away", ("≤ 0.12", "≤ 0.06", "≤ 0.02")),
        )
        for server, words, targets in places:
            timings: list[list[Timing]] = [[] for _ in range(5)]
            for _ in range(rounds):
                mine, other = bench.namespace(server), bench.namespace(server)
                apply = ("apply", spec, "--wait", "none")
                in_turns = (
                    bench.ours(mine, *apply),
                    bench.theirs(other, "apply", "--server-side", "-f", rendered),
                    bench.ours(mine, *apply),
                    bench.ours(mine, "diff", spec),
                    bench.theirs(mine, *KUBECTL_DIFF, rendered, codes=(0, 1)),
                )
                for column, timing in zip(timings, in_turns, strict=True):
                    column.append(timing)
            new, kubectl, again, diff, kubectl_diff = map(middle, timings)
            count = f"{2 * workers:,}"
            rows += [
                Row(f"apply of {count} new objects{words}", new, kubectl, targets[0]),
                Row(f"apply of {count} objects again{words}", again, kubectl, targets[1]),
                Row(f"diff of {count} unchanged objects{words}", diff, kubectl_diff, targets[2]),
            ]
    if many:
        # Each changed Pod is tried: what would an update make of it.
        mine = bench.namespace(bench.plane.server)
        bench.ours(mine, "apply", spec, "--wait", "none")
        spec, rendered = bench.job(workers, "horovod/horovod:0.28.2")
        ours = bench.ours(mine, "diff", spec, codes=(1,))
        theirs = bench.theirs(mine, *KUBECTL_DIFF, rendered, codes=(0, 1))
        title = f"diff of {2 * workers:,} objects, {workers:,} Pods changed"
        rows.append(Row(title, ours, theirs, "≤ 1"))
        spec, rendered = bench.job(many)
        mine = bench.namespace(bench.plane.server)
        quick = ("--config", "concurrency=32", "--wait", "none", "--timeout", "0")
        bench.ours(mine, "apply", spec, *quick)
        ours = bench.ours(mine, "diff", spec, codes=(0, 1))
        theirs = bench.theirs(mine, *KUBECTL_DIFF, rendered, codes=(0, 1))
        title = f"diff of {2 * many:,} unchanged objects"
        rows.append(Row(title, ours, theirs, "≤ 0.025, ≤ 300 MB"))
    return rows


KUBECTL_DIFF = ("diff", "--server-side", "--force-conflicts", "-f")


def table(rows: list[Row]) -> str:
    """The figures as Markdown."""
    lines = [
        "| | etcompile | kubectl | ratio | of processors | target |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.title} | {row.ours} | {row.theirs}"
        f" | {row.ours.seconds / row.theirs.seconds:.3f}"
        f" | {row.ours.processor / row.theirs.processor:.3f} | {row.target} |"
        for row in rows
    ]
    return "\n".join(lines)


def figures_text(rows: list[Row], date: str, load: float) -> str:
    """The figures as the page has them."""
    short = [(row.title, str(row.ours), str(row.theirs)) for row in rows]
    return f"{measured_on(date, load)}\n\n{short_table(('', 'etcompile', 'kubectl'), short)}"


def kubectl(plane: ControlPlane) -> str | None:
    """The kubectl built with the API server, else the one on PATH."""
    built = plane.binaries / "kubectl"
    return str(built) if built.exists() else shutil.which("kubectl")


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--workers", type=int, default=500)
    parser.add_argument("--many", type=int, default=0, help="also of twice as many objects, once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--away", type=float, default=20, help="milliseconds")
    parser.add_argument("--no-docs", action="store_true")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plane = ControlPlane(folder, binaries(print))
        try:
            if not (program := kubectl(plane)):
                raise SystemExit("there is no kubectl to compare with")
            bench = Bench(folder, plane, program)
            rows = figures(
                bench, arguments.workers, arguments.many, arguments.rounds, arguments.away
            )
        finally:
            plane.stop()
        print(table(rows))
        if not arguments.no_docs:
            write_figures(ROOT / "docs", "apply", figures_text(rows, arguments.date, load))


if __name__ == "__main__":
    main()
