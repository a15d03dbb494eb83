"""The cells of the matrix: every kind for every sync tool, gang scheduler and source of keys.

A kind is an example of it as it stands in the repository, without its scale intents. What a cell
comes to is what the compiler says of it, and the objects.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

import etcompile
from etcompile import Compilation, Options, Settings, Severity
from etcompile.load import Document, load
from etcompile.model import GANGS
from etcompile.model.settings import secret_mode
from keysources import MODES, Means

ROOT = Path(__file__).parents[2]

KINDS = {
    "TrainingJob": "trainingjob/elastic-mnist",
    "TrainingJob (kubexec)": "trainingjob/kubexec",
    "TFJob": "tfjob/parameter-servers",
    "TFJob (dynamic)": "tfjob/dynamic-workers",
    "PyTorchJob": "pytorchjob/all-reduce",
    "PyTorchJob (elastic)": "pytorchjob/elastic",
    "MPIJob": "mpijob/elastic-horovod",
    "MPIJob v2beta1": "mpijob-v2beta1/pi",
    "XGBoostJob": "xgboostjob/iris",
    "PaddleJob": "paddlejob/collective",
    "JAXJob": "jaxjob/all-reduce",
    "MXJob": "mxjob/dist-mnist",
    "ElasticJob": "elasticjob/all-reduce",
    "ElasticJob (servers)": "elasticjob/parameter-servers",
    "ElasticJob (master)": "elasticjob/parameter-servers-master",
}
"""Each kind, and each form of one that compiles to something else, with the example of it. Another
kind is there by its only example, or its first."""


def _others() -> Iterator[tuple[str, str]]:
    """The kinds that have no row: a TrainJob is what its runtime makes of it."""
    known = {"trainjob", *(example.partition("/")[0] for example in KINDS.values())}
    for job in sorted((ROOT / "examples").glob("*/*/job.yaml")):
        folder, example = job.parts[-3:-1]
        if folder not in known:
            known.add(folder)
            yield load([job]).documents[0].kind or "", f"{folder}/{example}"


KINDS |= dict(_others())

PROFILES = {
    "plain": (),
    "argocd": ("argocd",),
    "flux": ("flux",),
    "argocd+flux": ("argocd", "flux"),
    "kapp": ("kapp",),
    "kpt": ("kpt",),
}
SECRETS = MODES
VERSIONS = ("1.25", "1.31", "1.37")
"""The oldest version of Kubernetes that is known, the newest, and one between."""
RUN = "r1"


class Cell(NamedTuple):
    profile: str
    kind: str
    gang: str
    secret: str


def every_cell() -> Iterator[Cell]:
    return itertools.starmap(Cell, itertools.product(PROFILES, KINDS, GANGS, SECRETS))


def cells_of_threes() -> Iterator[Cell]:
    """A sixth of them, in which any options of three dimensions meet.

    Each kind has each gang scheduler and each source of keys once, with a profile that moves on
    with each of the three. A rule that looks at three options at most does in these what it does
    in all.
    """
    profiles = tuple(PROFILES)
    for (k, kind), (g, gang), (s, secret) in itertools.product(
        *map(enumerate, (KINDS, GANGS, SECRETS))
    ):
        yield Cell(profiles[(k + g + s) % len(profiles)], kind, gang, secret)


@functools.cache
def documents(kind: str) -> tuple[Document, ...]:
    """What an example holds, apart from its scale intents."""
    folder = ROOT / "examples" / KINDS[kind]
    files = [one for one in sorted(folder.glob("*.yaml")) if not one.name.startswith("scale-")]
    loaded = load(files)
    assert not loaded.diagnostics
    return loaded.documents


def compiled(
    cell: Cell,
    means: Means,
    *,
    version: str = VERSIONS[-1],
    run: str | None = None,
    bare: bool = False,
) -> Compilation:
    """What the compiler makes of a cell; `bare`, of one whose job names no namespace."""
    settings = Settings(
        profiles=PROFILES[cell.profile],
        gang=cell.gang,
        secret=secret_mode(means.mode(cell.secret)),
        kubernetes_version=version,
        run=run,
    )
    options = Options(settings=settings, output=means.output)
    inputs = map(_bare, documents(cell.kind)) if bare else documents(cell.kind)
    return etcompile.compile(inputs, options)


def _bare(document: Document) -> Document:
    metadata = {k: v for k, v in document.data["metadata"].items() if k != "namespace"}
    return structs.replace(document, data={**document.data, "metadata": metadata})


def codes(compilation: Compilation) -> frozenset[str]:
    """The codes that a compilation tells of, those that refuse it with an exclamation mark."""
    return frozenset(
        f"{one.code}{'!' if one.severity is Severity.ERROR else ''}"
        for one in compilation.diagnostics
    )


class Outcome(NamedTuple):
    """What a cell comes to.

    Args:
        with_run: The same with `--run`, where it is refused without; else None.
        kinds: The kinds of its objects, as `Kind.group` where they are not Kubernetes' core.
        minimum: How many of them must fit before any starts, as its PodGroup has it.
    """

    codes: frozenset[str]
    with_run: frozenset[str] | None
    kinds: frozenset[str]
    pods: int = 0
    minimum: int | None = None

    @property
    def refused(self) -> bool:
        """Whether it does not compile, not even with a run."""
        return is_error(self.codes if self.with_run is None else self.with_run)


def is_error(codes: frozenset[str]) -> bool:
    return any(code.endswith("!") for code in codes)


def kind_of(value: Mapping[str, Any]) -> str:
    group = value["apiVersion"].rpartition("/")[0]
    return f"{value['kind']}.{group}" if group else str(value["kind"])


def one_of_each(compilation: Compilation) -> Iterator[dict[str, Any]]:
    """An object of each kind, and of Pods one of each role: the others differ in an index."""
    seen = set()
    for value in compilation.in_order():
        labels = value["metadata"].get("labels", {}) if value["kind"] == "Pod" else {}
        key = (kind_of(value), labels.get("etcompile.dev/role"), len(labels))
        if key not in seen:
            seen.add(key)
            yield dict(value)
