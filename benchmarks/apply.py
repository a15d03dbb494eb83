"""How long a rollout takes, beside kubectl doing the same to the same API server.

Times whole processes: wall clock, processor time and peak memory. Both apply the objects that one
spec renders to, in turns, each into namespaces of its own of a real kube-apiserver, which this
starts as the tests do. The API server is on the same machine and has no kubelet, so nothing waits
for Pods.

    python benchmarks/apply.py [--date YYYY-MM-DD] [--workers N] [--many N] [--rounds N] [--no-docs]

It prints its table and writes its figures into docs/benchmarks.md. kubectl is the one that was
built with the API server, and that on PATH.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from figures import measured_on, short_table, write_figures  # noqa: E402

from controlplane.binaries import binaries  # noqa: E402
from controlplane.server import ControlPlane  # noqa: E402

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
            told = output.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{told}")
    return Timing(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class Bench:
    """One API server and the two that talk to it."""

    def __init__(self, folder: Path, plane: ControlPlane, kubectls: dict[str, str]) -> None:
        self.folder = folder
        self.plane = plane
        self.kubectls = kubectls

    def job(self, workers: int, image: str = IMAGE) -> tuple[Path, Path]:
        """A spec, and what it renders to."""
        spec, rendered = self.folder / f"{workers}.yaml", self.folder / f"{workers}-rendered.yaml"
        spec.write_text(SPEC.format(workers=workers, image=image))
        with rendered.open("wb") as output:
            subprocess.run([*ETCOMPILE, "render", spec], stdout=output, check=True)
        return spec, rendered

    def ours(self, namespace: str, *arguments: str | Path, codes: Sequence[int] = (0,)) -> Timing:
        """etcompile, in a namespace."""
        return self._timed([*ETCOMPILE, *map(str, arguments)], namespace, codes, "etcompile")

    def theirs(
        self, version: str, namespace: str, *arguments: str | Path, codes: Sequence[int] = (0,)
    ) -> Timing:
        """A kubectl, in a namespace."""
        command = [self.kubectls[version], *map(str, arguments)]
        return self._timed(command, namespace, codes, "kubectl")

    def _timed(
        self, command: Sequence[str], namespace: str, codes: Sequence[int], agent: str
    ) -> Timing:
        before = self._requests(agent)
        found = timed(command, self._in(namespace), codes)
        return replace(found, requests=self._requests(agent) - before)

    def _requests(self, agent: str) -> int:
        return self.plane.requests(agent)

    def _in(self, namespace: str) -> dict[str, str]:
        config = self.plane.kubeconfig(token="admin-token", namespace=namespace)
        return {"KUBECONFIG": str(config)}


ETCOMPILE = (sys.executable, "-m", "etcompile")


@dataclass(frozen=True)
class Row:
    """What was done, by whom else, how long we and they took, and the target of the ratio."""

    title: str
    beside: str
    ours: Timing
    theirs: Timing
    target: str


def figures(bench: Bench, workers: int, many: int, rounds: int) -> list[Row]:
    """All figures."""
    spec, rendered = bench.job(workers)
    count = 2 * workers
    first, again, theirs = [], [], {kubectl: [] for kubectl in bench.kubectls}
    apply = ("apply", "--server-side", "-f", rendered)
    for _ in range(rounds):
        mine = bench.plane.namespace()
        first.append(bench.ours(mine, "apply", spec, "--wait", "none"))
        again.append(bench.ours(mine, "apply", spec, "--wait", "none"))
        for kubectl, took in theirs.items():
            took.append(bench.theirs(kubectl, bench.plane.namespace(), *apply))
    rows = []
    # Both targets are of the time that kubectl takes the first time.
    for what, ours, target in (("new objects", first, "≤ 0.4"), ("objects again", again, "≤ 0.05")):
        title = f"apply of {count:,} {what}"
        for kubectl, took in theirs.items():
            rows.append(Row(title, kubectl, middle(ours), middle(took), target))
    # Each changed Pod is asked about: what would an update make of it.
    spec, rendered = bench.job(workers, "horovod/horovod:0.28.2")
    changed = bench.ours(mine, "diff", spec, codes=(1,))
    diff = ("diff", "--server-side", "--force-conflicts", "-f", rendered)
    kubectl = next(iter(bench.kubectls))
    theirs = bench.theirs(kubectl, mine, *diff, codes=(1,))
    title = f"diff of {count:,} objects, {workers:,} Pods changed"
    rows.append(Row(title, kubectl, changed, theirs, "≤ 1"))
    spec, rendered = bench.job(many)
    mine = bench.plane.namespace()
    quick = ("--config", "concurrency=32", "--wait", "none", "--timeout", "0")
    bench.ours(mine, "apply", spec, *quick)
    ours = bench.ours(mine, "diff", spec, codes=(0, 1))
    diff = ("diff", "--server-side", "--force-conflicts", "-f", rendered)
    theirs = bench.theirs(kubectl, mine, *diff, codes=(0, 1))
    title = f"diff of {2 * many:,} unchanged objects"
    rows.append(Row(title, kubectl, ours, theirs, "≤ 0.025, ≤ 300 MB"))
    return rows


def table(rows: list[Row]) -> str:
    """The figures as Markdown."""
    lines = [
        "| | etcompile | beside | took | ratio | of processors | target |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.title} | {row.ours} | kubectl {row.beside} | {row.theirs}"
        f" | {row.ours.seconds / row.theirs.seconds:.3f}"
        f" | {row.ours.processor / row.theirs.processor:.3f} | {row.target} |"
        for row in rows
    ]
    return "\n".join(lines)


def figures_text(rows: list[Row], date: str, load: float) -> str:
    """The figures as the page has them."""
    short = [(row.title, str(row.ours), f"{row.beside}: {row.theirs}") for row in rows]
    found = short_table(("", "etcompile", "kubectl"), short)
    return f"{measured_on(date, load)}\n\n{found}"


def kubectls(plane: ControlPlane) -> dict[str, str]:
    """By version: the one built with the API server, and the one on PATH."""
    found = {}
    built = plane.binaries / "kubectl"
    for path in filter(None, (built if built.exists() else None, shutil.which("kubectl"))):
        told = subprocess.run(
            [path, "version", "--client"], capture_output=True, text=True, check=True
        ).stdout
        found.setdefault(told.split("Client Version: ")[-1].split()[0], str(path))
    return found


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--workers", type=int, default=500)
    parser.add_argument("--many", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-docs", action="store_true")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plane = ControlPlane(folder, binaries(print))
        try:
            if not (known := kubectls(plane)):
                raise SystemExit("there is no kubectl to compare with")
            bench = Bench(folder, plane, known)
            rows = figures(bench, given.workers, given.many, given.rounds)
        finally:
            plane.stop()
        print(table(rows))
        if not given.no_docs:
            write_figures(ROOT / "docs", "apply", figures_text(rows, given.date, load))


if __name__ == "__main__":
    main()
