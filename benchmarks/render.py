"""How long rendering takes, beside Helm and Kustomize making the same objects.

Times whole processes, wall clock and peak memory, in turns (A, B, A, B), so that a busy machine
slows all of them. Helm gets a chart that writes the same documents, text for text, from a list of
jobs; Kustomize builds the folder that etcompile wrote. Both must be on PATH, or are left out.

    python benchmarks/render.py [--runs N] [--date YYYY-MM-DD] [--only TITLE] [--no-docs]

It prints its table, writes its figures into docs/benchmarks.md, and draws docs/benchmarks.svg.
"""

import argparse
import collections
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from figures import measured_on, short_table, write_figures

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

SPEC = """\
apiVersion: kai.alibabacloud.com/v1alpha1
kind: TrainingJob
metadata: {{ name: {name}, namespace: ml }}
spec:
  slotsPerWorker: 8
  etReplicaSpecs:
    launcher:
      template:
        spec:
          containers:
            - name: train
              image: horovod/horovod:0.28.1
              command: [horovodrun, -np, "8", --min-np, "8", --host-discovery-script,
                        /etc/edl/discover_hosts.sh, python, train.py]
              resources: {{ limits: {{ cpu: "2", memory: 2Gi }} }}
    worker:
      replicas: {workers}
      template:
        metadata: {{ labels: {{ team: vision }} }}
        spec:
          nodeSelector: {{ pool: gpu }}
          tolerations:
            - {{ key: nvidia.com/gpu, operator: Exists, effect: NoSchedule }}
          containers:
            - name: train
              image: horovod/horovod:0.28.1
              env:
                - {{ name: NCCL_DEBUG, value: INFO }}
                - {{ name: NCCL_SOCKET_IFNAME, value: eth0 }}
              resources:
                requests: {{ cpu: "8", memory: 64Gi }}
                limits: {{ memory: 64Gi, nvidia.com/gpu: 8 }}
              volumeMounts:
                - {{ name: data, mountPath: /data, readOnly: true }}
                - {{ name: shm, mountPath: /dev/shm }}
          volumes:
            - {{ name: data, persistentVolumeClaim: {{ claimName: imagenet }} }}
            - {{ name: shm, emptyDir: {{ medium: Memory }} }}
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something to render.

    Args:
        title: What the table calls it.
        jobs: How many jobs, a file each.
        workers: Workers of each job.
        runs: How many runs, as a share of those asked for.
        kustomize: Whether Kustomize can do it in bearable time: it compares every object with
            every other.
    """

    title: str
    jobs: int
    workers: int
    runs: float = 1
    kustomize: bool = True


SCENARIOS = (
    Scenario("1 job of 2 workers", 1, 2, runs=4),
    Scenario("1 job of 1,000 workers", 1, 1000),
    Scenario("100 jobs of 100 workers", 100, 100, kustomize=False),
    Scenario("1,000 jobs of 100 workers", 1000, 100, runs=0.4, kustomize=False),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a process: seconds of wall clock and of processor, peak memory in MB."""

    wall: float
    processor: float
    memory: float


@dataclass(frozen=True, slots=True)
class Result:
    """A scenario's runs by program, in turns, and what they wrote."""

    scenario: Scenario
    runs: dict[str, list[Run]]
    objects: int
    size: int

    def ratios(self, program: str, other: str) -> list[float]:
        """Wall time of one program by that of another, run by run."""
        pairs = zip(self.runs[program], self.runs[other], strict=True)
        return [one.wall / two.wall for one, two in pairs]


# Programs -------------------------------------------------------------------------------------


def environment(folder: Path) -> dict[str, str]:
    """The processes' environment: bytecode is there, as after an installation."""
    others = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**others, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONPATH": str(ROOT)}


# A process of its own, as a child's peak memory is never less than its parent's at the fork.
_TIMER = """
import os, sys, time
begin = time.perf_counter()
child = os.fork()
if not child:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
wall = time.perf_counter() - begin
print(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def timed(command: Sequence[str], variables: dict[str, str]) -> Run:
    """One run of a command, its output thrown away."""
    timer = [sys.executable, "-S", "-E", "-c", _TIMER, *command]
    wall, processor, memory = map(float, output(timer, variables).split())
    return Run(wall, processor, memory)


def output(command: Sequence[str], variables: dict[str, str]) -> str:
    """What a command writes to standard output."""
    return subprocess.run(
        command, env=variables, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def etcompile(*arguments: object) -> list[str]:
    """The command line of etcompile, as its entry point runs it."""
    program = "from etcompile.cli import main; main()"
    return [sys.executable, "-c", program, *map(str, arguments)]


def specs(folder: Path, scenario: Scenario) -> Path:
    """A folder with the scenario's job specifications."""
    folder.mkdir()
    for name in names(scenario):
        text = SPEC.format(name=name, workers=scenario.workers)
        (folder / f"{name}.yaml").write_text(text)
    return folder


def names(scenario: Scenario) -> list[str]:
    """The jobs' names, all of one length."""
    return [f"train-{number:04}" for number in range(scenario.jobs)]


def documents(stream: str) -> list[str]:
    """The documents of a YAML stream, without comments at their head."""
    parts = re.split(r"^---\n", stream, flags=re.MULTILINE)
    bare = (re.sub(r"\A(?:#.*\n)+", "", part).strip() for part in parts)
    return [part for part in bare if part]


# The chart ------------------------------------------------------------------------------------


def chart(folder: Path, scenario: Scenario, stream: str) -> Path:
    """A chart whose documents are those of `stream`.

    It holds the text of one job's documents and goes through jobs and workers: the least work
    that a chart can do for them.
    """
    first = names(scenario)[0]
    objects = documents(stream)
    of_first = [one for one in objects if re.search(rf"\b{first}\b", one)]
    single = [
        one for one in of_first if not re.search(rf"^  name: {first}-worker-", one, re.MULTILINE)
    ]
    each = [one for one in of_first if re.search(rf"^  name: {first}-worker-0$", one, re.MULTILINE)]
    hashes = re.findall(
        r"spec-hash: (\S+)\n(?:    .*\n|  labels:\n)+  name: (.*)-launcher\n", stream
    )
    by_name = {job: digest for digest, job in hashes}  # in quotes where they look like a number
    template = (
        "{{- range $job := .Values.jobs }}\n"
        + "".join(f"---\n{_of_job(one, first, by_name[first], scenario)}\n" for one in single)
        + "{{- range $i := until (int $.Values.workers) }}\n"
        + "".join(f"---\n{_of_worker(one, first, by_name[first])}\n" for one in each)
        + "{{- end }}\n{{- end }}\n"
    )
    values = [f"workers: {scenario.workers}\njobs:\n"]
    values += [
        f"- {{name: {name}, hash: {json.dumps(by_name[name])}}}\n" for name in names(scenario)
    ]
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: jobs\nversion: 1.0.0\n")
    (folder / "values.yaml").write_text("".join(values))
    (folder / "templates" / "jobs.yaml").write_text(template)
    return folder


def _of_job(document: str, name: str, digest: str, scenario: Scenario) -> str:
    """The template of a document that each job has once."""
    text = document.replace("{{", '{{ "{{" }}')
    for slots in (":8", " slots=8"):
        lines = "".join(f"    {name}-worker-{n}{slots}\n" for n in range(scenario.workers))
        one = f"    {{{{ $job.name }}}}-worker-{{{{ $i }}}}{slots}\n"
        every = "{{- range $i := until (int $.Values.workers) }}\n" + one + "{{- end }}\n"
        text = text.replace(lines, every)
    return text.replace(name, "{{ $job.name }}").replace(digest, "{{ $job.hash }}")


def _of_worker(document: str, name: str, digest: str) -> str:
    """The template of a document that each worker has."""
    text = document.replace("{{", '{{ "{{" }}')
    text = text.replace(f"{name}-worker-0", "{{ $job.name }}-worker-{{ $i }}")
    text = text.replace("index: '0'", "index: '{{ $i }}'")
    return text.replace(name, "{{ $job.name }}").replace(digest, "{{ $job.hash }}")


def same(one: str, two: str, what: str) -> None:
    """Ends the program unless two streams hold the same documents, text for text."""
    ours, theirs = (collections.Counter(documents(stream)) for stream in (one, two))
    if ours != theirs:
        odd = next(iter((ours - theirs) or (theirs - ours)))
        sys.exit(f"{what} writes other documents: {len(ours)} and {len(theirs)}; such as\n{odd}")


# Measuring ------------------------------------------------------------------------------------


def measured(scenario: Scenario, runs: int, folder: Path) -> Result:
    """Runs every program on a scenario, in turns; each once before, to warm up."""
    variables = environment(folder.parent)
    jobs = specs(folder / "jobs", scenario)
    stream = output(etcompile("render", jobs), variables)
    commands = {"etcompile": etcompile("render", jobs)}
    if scenario.jobs == 1:
        commands["python -c pass"] = [sys.executable, "-c", "pass"]
    if helm := shutil.which("helm"):
        commands["helm template"] = [
            helm,
            "template",
            str(chart(folder / "chart", scenario, stream)),
        ]
        same(stream, output(commands["helm template"], variables), "the chart")
    if scenario.kustomize and (kubectl := shutil.which("kubectl")):
        output(etcompile("render", jobs, "-q", "-d", folder / "out"), variables)
        commands["kustomize build"] = [kubectl, "kustomize", str(folder / "out")]
        built = output(commands["kustomize build"], variables)
        if len(documents(built)) != len(documents(stream)):
            sys.exit("kustomize writes another number of objects")
    by_command: dict[str, list[Run]] = {name: [] for name in commands}
    objects, size = len(documents(stream)), len(stream)
    del stream
    for _ in range(max(3, round(runs * scenario.runs))):
        for name, command in commands.items():
            by_command[name].append(timed(command, variables))
    return Result(scenario, by_command, objects, size)


def version(command: Sequence[str]) -> str:
    """The last version that a program names; that it is not there, if so."""
    if not shutil.which(command[0]):
        return "not installed"
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return (re.findall(r"\bv?(\d+\.\d+\S*)", text) or ["?"])[-1]


# The report -----------------------------------------------------------------------------------


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _both(values: Sequence[float], write: Callable[[float], str]) -> str:
    return f"{write(min(values))} / {write(statistics.median(values))}"


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def table(results: Sequence[Result]) -> str:
    """All figures, as a Markdown table."""
    lines = [
        "| what | program | wall | processor | peak memory | etcompile's wall time / its |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        title = f"{result.scenario.title}: {result.objects:,} objects, {result.size / 1e6:.3g} MB"
        for name, runs in result.runs.items():
            other = name != "etcompile"
            cells = (
                title,
                name,
                _both([run.wall for run in runs], _seconds),
                _both([run.processor for run in runs], _seconds),
                f"{max(run.memory for run in runs):.0f} MB",
                _both(result.ratios("etcompile", name), _ratio) if other else "",
            )
            lines.append(f"| {' | '.join(cells)} |")
            title = ""
    return "\n".join(lines) + "\n"


def notes(results: Sequence[Result]) -> str:
    """What the figures come to: growth, and memory an object."""
    by_jobs = {result.scenario.jobs: result for result in results if result.scenario.workers == 100}
    if not {100, 1000} <= by_jobs.keys():
        return ""
    small, large = by_jobs[100], by_jobs[1000]
    lines = []
    for name in ("etcompile", "helm template"):
        if name in small.runs and name in large.runs:
            one, ten = (statistics.median(r.wall for r in x.runs[name]) for x in (small, large))
            lines.append(
                f"- Ten times the jobs take {name} {ten / one:.1f} times as long (medians).\n"
            )
    return "".join(lines)


def plot(results: Sequence[Result]) -> str:
    """The medians of the wall times as an SVG: a row a scenario, a dot a program, logarithmic."""
    colours = {
        "etcompile": "#0b6e4f",
        "python -c pass": "#999999",
        "helm template": "#1f5fa8",
        "kustomize build": "#c2571a",
    }
    left, width, row, top = 190, 520, 40, 50
    medians = [
        {name: statistics.median(run.wall for run in runs) for name, runs in result.runs.items()}
        for result in results
    ]
    every = [value for values in medians for value in values.values()]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    height = top + row * len(results) + 40

    def across(seconds: float) -> float:
        return left + width * (math.log10(seconds) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 40} {height}">',
        "<style>text { font: 12px sans-serif }</style>",
        "<title>Wall time of rendering, median, logarithmic</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    bottom = top + row * len(results)
    for power in range(low, high + 1):
        x = across(10**power)
        label = f"{10**power * 1000:g} ms" if power < 0 else f"{10**power:g} s"
        parts += [
            f'<path d="M{x:.1f} {top - 10}V{bottom}" stroke="#dddddd"/>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>',
        ]
    for number, (result, values) in enumerate(zip(results, medians, strict=True)):
        y = top + row * number + row / 2 - 5
        title = result.scenario.title
        parts.append(f'<text x="{left - 12}" y="{y + 4:.0f}" text-anchor="end">{title}</text>')
        for name, value in values.items():
            dot = f'<circle cx="{across(value):.1f}" cy="{y:.0f}" r="6" fill="{colours[name]}">'
            parts.append(f"{dot}<title>{name}: {_seconds(value)}</title></circle>")
    x = left
    for name, colour in colours.items():
        if any(name in values for values in medians):
            parts += [
                f'<circle cx="{x}" cy="20" r="6" fill="{colour}"/>',
                f'<text x="{x + 12}" y="24">{name}</text>',
            ]
            x += 135
    return "\n".join([*parts, "</svg>"]) + "\n"


PROGRAMS = {"etcompile": "etcompile", "helm template": "Helm", "kustomize build": "Kustomize"}


def figures_text(results: Sequence[Result], date: str, load: float) -> str:
    """The figures as the page has them: median wall times, and the highest memory."""

    def cell(runs: Sequence[Run]) -> str:
        seconds = statistics.median(run.wall for run in runs)
        return f"{_seconds(seconds)}, {max(run.memory for run in runs):.0f} MB"

    rows = [
        (
            f"{result.scenario.title}, {result.objects:,} objects",
            *(cell(result.runs[one]) if one in result.runs else "" for one in PROGRAMS),
        )
        for result in results
    ]
    helm = version(["helm", "version", "--short"])
    kustomize = version(["kubectl", "version", "--client"])
    measured = measured_on(date, load, f"Helm {helm}", f"Kustomize {kustomize}")
    table = short_table(("", *PROGRAMS.values()), rows)
    return f"{measured}\n\n{table}\n\n{notes(results)}"


def commit_date() -> str:
    """The day of the checkout's last commit."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%cs"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description="Times etcompile beside Helm and Kustomize.")
    parser.add_argument("--runs", type=int, default=10, help="runs of each program [10]")
    parser.add_argument("--date", help="the day to write into the page [of the last commit]")
    parser.add_argument("--only", default="", help="only scenarios whose title contains this")
    parser.add_argument("--no-docs", action="store_true", help="print, and write no file")
    arguments = parser.parse_args()
    for name in ("helm", "kubectl"):
        if not shutil.which(name):
            print(f"{name}: not installed")
    load, *_ = os.getloadavg()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for number, scenario in enumerate(s for s in SCENARIOS if arguments.only in s.title):
            place = Path(folder) / str(number)
            place.mkdir()
            results.append(measured(scenario, arguments.runs, place))
            print(table(results[-1:]), flush=True)
            shutil.rmtree(place)
    print(notes(results))
    if not arguments.no_docs:
        text = figures_text(results, arguments.date or commit_date(), load)
        write_figures(DOCS, "render", text)
        (DOCS / "benchmarks.svg").write_text(plot(results))


if __name__ == "__main__":
    main()
