"""How much longer a check takes with advice than without.

Whole processes, in turns (A, B, A, B), so that a busy machine slows both. The files are the
examples, again and again under other names of jobs.

    python benchmarks/lint.py [--runs N] [--files N]
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHECK = """
import sys
from etcompile import Options, compile
made = compile(sys.argv[2:], Options(lint=sys.argv[1] == "lint"))
sys.exit(None if made.ok else str(made.diagnostics[:5]))
"""


def files(folder: Path, count: int) -> list[Path]:
    """Jobs of all kinds, a file each."""
    texts = (file.read_text("utf-8") for file in sorted(ROOT.glob("examples/*/*/job.yaml")))
    # A runtime is found by its name.
    examples = [text for text in texts if "kind: TrainingRuntime" not in text]
    paths = []
    for number in range(count):
        text = examples[number % len(examples)]
        text = re.sub(r"(?m)^(metadata:\n  name: )(\S+)", rf"\g<1>j{number}-\g<2>", text)
        text = re.sub(
            r"(?m)^metadata: \{ *name: ([^,} ]+)", rf"metadata: {{ name: j{number}-\1", text
        )
        file = folder / f"job-{number}.yaml"
        file.write_text(text, "utf-8")
        paths.append(file)
    return paths


def seconds(mode: str, paths: list[Path]) -> float:
    """The wall time of one process."""
    words = [sys.executable, "-c", CHECK, mode, *map(str, paths)]
    begin = time.perf_counter()
    subprocess.run(
        words, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    )
    return time.perf_counter() - begin


def main() -> None:
    """Prints the ratio of each pair of runs, and their median."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--files", type=int, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = files(Path(folder), arguments.files)
        seconds("lint", paths)
        pairs = [(seconds("lint", paths), seconds("plain", paths)) for _ in range(arguments.runs)]
    ratios = sorted(one / other for one, other in pairs)
    print(f"{arguments.files} files, {arguments.runs} pairs of runs")
    print(f"without advice: {statistics.median(other for _, other in pairs):.2f} s")
    print(f"with advice:    {statistics.median(one for one, _ in pairs):.2f} s")
    print(f"ratio: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")


if __name__ == "__main__":
    main()
