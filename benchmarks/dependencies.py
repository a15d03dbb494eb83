"""What our libraries cost beside those that one would expect in their place.

Run: python benchmarks/dependencies.py (in an environment with the extra `test`). Each pair does the
same work in turns in one run; only the ratios mean something. Seconds are CPU time. The reasons
are in docs/dependencies.md.
"""

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import msgspec
import yaml
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
ROUNDS = 5


def spent(work: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def started(module: str) -> float:
    """CPU seconds of a process that imports a module, less those of one that imports nothing."""
    code = "import time\n{}\nprint(time.process_time())"
    run = [sys.executable, "-c", code.format(f"import {module}" if module else "")]
    return float(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


def pairs() -> dict[str, tuple[Callable[[], float], Callable[[], float]]]:
    """Ours and the other, by what they do."""
    text = "\n---\n".join(path.read_text() for path in sorted(ROOT.glob("golden/*/*/*.yaml"))[:12])
    bundle = json.loads((ROOT / "schemas" / "kubernetes" / "1.34.json").read_text())
    schema = {**bundle, "$ref": "#/$defs/core.v1.PodTemplateSpec"}
    values = yaml.load_all(text, Loader=yaml.CSafeLoader)
    pod = next(one for one in values if one["kind"] == "Pod")
    value = {"metadata": pod["metadata"], "spec": pod["spec"]}
    fast, slow = jsonschema_rs.validator_for(schema), jsonschema.validators.validator_for(schema)
    official = slow(schema)
    data = json.dumps(list(yaml.load_all(text, Loader=yaml.CSafeLoader))).encode()
    return {
        "YAML read: PyYAML with libyaml | ruamel.yaml": (
            lambda: spent(lambda: list(yaml.load_all(text, Loader=yaml.CSafeLoader))),
            lambda: spent(lambda: list(YAML(typ="rt").load_all(io.StringIO(text)))),
        ),
        "a Pod held against its schema 100 times: jsonschema-rs | jsonschema": (
            lambda: spent(lambda: [fast.is_valid(value) for _ in range(100)]),
            lambda: spent(lambda: [official.is_valid(value) for _ in range(100)]),
        ),
        "JSON read: msgspec | json": (
            lambda: spent(lambda: [msgspec.json.decode(data) for _ in range(20)]),
            lambda: spent(lambda: [json.loads(data) for _ in range(20)]),
        ),
        "client imported: ours | kubernetes": (
            lambda: started("etcompile.kubeapi") - started(""),
            lambda: started("kubernetes.client, kubernetes.config") - started(""),
        ),
    }


def main() -> None:
    """Prints the medians of all pairs."""
    print("| pair | ours | the other | ratio |\n|---|---|---|---|")
    for name, both in pairs().items():
        times = [[one() for one in both] for _ in range(ROUNDS)]
        ours, other = (sorted(column)[ROUNDS // 2] for column in zip(*times, strict=True))
        print(f"| {name} | {ours * 1000:.1f} ms | {other * 1000:.1f} ms | {other / ours:.1f} |")


if __name__ == "__main__":
    main()
