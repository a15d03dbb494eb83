"""docs/kinds has a page for every kind, whose example renders and whose fields exist."""

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from commandline import etcompile
from etcompile import compile as compiled
from etcompile import frontends
from etcompile.check.json_schemas import bundled_schema

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "kinds"
EXAMPLES = ROOT / "examples"
WITH_THEIR_JOB = {"ScaleIn": "trainingjob", "ScaleOut": "trainingjob", "ScalePlan": "elasticjob"}
EXAMPLE = re.compile(r"^```yaml\n(.*?)^```\n.*?^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page(kind: frontends.Kind) -> Path:
    """The page of a kind; a later API version's has that in its name."""
    version = kind.api_version.rpartition("/")[2]
    suffix = "" if kind.schema.endswith(f"{kind.name}.json") else f"-{version}"
    return PAGES / f"{WITH_THEIR_JOB.get(kind.name, kind.name.lower())}{suffix}.md"


def pages() -> dict[Path, list[frontends.Kind]]:
    by_page: dict[Path, list[frontends.Kind]] = {}
    for kind in frontends.kinds():
        by_page.setdefault(page(kind), []).append(kind)
    return by_page


every_page = pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)


def below(schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    """The fields of a part of a schema; `*` is any key, `[]` any entry."""
    while reference := value.get("$ref"):
        value = schema["$defs"][reference.rpartition("/")[2]]
    for name, rules in value.get("properties", {}).items():
        yield f"{path}.{name}"
        # Below these, the fields are those of Kubernetes.
        if name not in ("template", "status", "metadata"):
            yield from below(schema, rules, f"{path}.{name}")
    if isinstance(items := value.get("items"), dict):
        yield from below(schema, items, f"{path}[]")


def fields(kinds: list[frontends.Kind]) -> set[str]:
    schemas = [bundled_schema(kind.schema) for kind in kinds]
    return {
        field for schema in schemas for field in below(schema, schema["properties"]["spec"], "spec")
    }


@every_page
def test_the_example_renders_to_what_the_page_says(path: Path, tmp_path: Path) -> None:
    [(example, objects)] = EXAMPLE.findall(path.read_text("utf-8"))
    (tmp_path / "job.yaml").write_text(example, "utf-8")
    done = etcompile("render", "job.yaml", cwd=tmp_path)
    assert done.stderr == ""
    rendered = [
        f"{one['kind']} {one['metadata']['name']}" for one in yaml.safe_load_all(done.stdout)
    ]
    assert rendered == objects.splitlines()


@every_page
def test_a_page_names_its_kinds_and_fields_that_they_have(path: Path) -> None:
    text = path.read_text("utf-8")
    kinds = pages()[path]
    for kind in kinds:
        assert kind.name in text
        assert kind.api_version in text
    named = set(re.findall(r"`(spec\.[\w.]+)`", text))
    assert len(named) > 0
    assert named - fields(kinds) == set()


def test_documented_shared_fields_are_fields_of_kubeflow_kinds() -> None:
    text = (PAGES / "README.md").read_text("utf-8")
    shared = re.findall(r"^- `(TYPE|runPolicy)\.(\w+)`", text, re.MULTILINE)
    assert len(shared) == 10
    [kind] = [kind for kind in frontends.kinds() if kind.name == "PyTorchJob"]
    parents = {"TYPE": "spec.pytorchReplicaSpecs.Worker", "runPolicy": "spec.runPolicy"}
    assert {f"{parents[parent]}.{name}" for parent, name in shared} <= fields([kind])


def test_every_page_is_of_a_kind() -> None:
    assert set(PAGES.glob("*.md")) - {PAGES / "README.md"} == set(pages())


# Tables of kinds and of examples ------------------------------------------------------------------


def scaling(path: Path) -> str:
    """Whether a job can be scaled while it runs, by the examples of its kind."""
    scalable = []
    examples = sorted((EXAMPLES / path.stem).iterdir())
    for example in examples:
        files = [file for file in sorted(example.glob("*.yaml")) if "scale-" not in file.name]
        scalable += [example] if any(group.elastic for group in compiled(files).groups) else []
    if len(scalable) in (0, len(examples)):
        return "yes" if scalable else "no"
    names = (example.relative_to(ROOT).as_posix() for example in scalable)
    return "as in " + ", ".join(f"[{Path(name).name}](../../{name}/job.yaml)" for name in names)


def rows_of_kinds() -> Iterator[str]:
    for path, kinds in sorted(pages().items()):
        kind = next(kind for kind in kinds if kind.pod_templates)
        title = f"{kind.name} {path.stem.removeprefix(kind.name.lower()).lstrip('-')}".rstrip()
        operator = kind.summary.partition(":")[0]
        yield f"| [{title}]({path.name}) | {operator} | {scaling(path)} |"


def rows_of_examples() -> Iterator[str]:
    """Each example with the first sentence of the comment at the top of its job."""
    for job in sorted(EXAMPLES.glob("*/*/job.yaml")):
        lines = itertools.takewhile(lambda line: line[:1] == "#", job.read_text().splitlines())
        words = [line.lstrip("# ") for line in lines if "yaml-language-server" not in line]
        shows = re.match(r".*?\.(?= |$)", " ".join(words))
        assert shows, f"{job} does not begin with a comment that says what it shows"
        yield f"| [{job.parent.relative_to(EXAMPLES)}]({job.relative_to(EXAMPLES)}) | {shows[0]} |"


@pytest.mark.parametrize(
    ("file", "rows"),
    [(PAGES / "README.md", rows_of_kinds), (EXAMPLES / "README.md", rows_of_examples)],
    ids=["kinds", "examples"],
)
def test_the_table_has_a_row_for_each(
    file: Path, rows: Callable[[], Iterator[str]], request: pytest.FixtureRequest
) -> None:
    text = file.read_text("utf-8")
    table = re.search(r"(?<=\|---\|\n)(\|.*\n)+", text)
    assert table
    expected = "\n".join(rows()) + "\n"
    if request.config.getoption("--update-goldens"):
        file.write_text(text.replace(table[0], expected), "utf-8")
    same = table[0] == expected or request.config.getoption("--update-goldens")
    assert same, "run `pytest tests/docs/test_kind_pages.py --update-goldens`"
