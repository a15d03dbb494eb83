"""The accepted inputs that the generator starts from: examples, a rich job, and other objects.

Apart from the mutations because what is mutated should grow with every example that is added.
"""

import functools
from pathlib import Path
from typing import Any

import yaml

_TESTS = Path(__file__).parent.parent
_DATA = _TESTS / "data" / "mutations"
OBJECTS = _DATA / "objects.yaml"

Documents = list[dict[str, Any]]


def documents(path: Path) -> Documents:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one]


@functools.cache
def inputs() -> tuple[Documents, ...]:
    """All inputs, some more than once: the generator takes any of them, and changes copies.

    Training jobs come first, as in the folders that people have: each example folder twice, the
    rich job twenty times, as it has most of the fields, each other object once.
    """
    folders = sorted({path.parent for path in (_TESTS.parent / "examples").rglob("*.yaml")})
    examples = [
        [
            one
            for path in sorted(folder.glob("*.yaml"))
            for one in documents(path)
            if one["kind"] != "CustomResourceDefinition"  # the API server's business alone
        ]
        for folder in folders
    ]
    jobs = [documents(_DATA / "job.yaml")] * 20
    return (*examples, *examples, *jobs, *([one] for one in documents(OBJECTS)))
