"""Every profile with every kind, every gang scheduler and every source of keys.

Cells in which any options of three dimensions meet are compiled and their objects held against
schemas; in the layer of programs, where there is time, all cells are, and docs/matrix.md is what
that found. Pairs of options are compiled in full, for three versions of Kubernetes, with a run.
"""

import functools
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from matrix_cells import (
    KINDS,
    PROFILES,
    RUN,
    SECRETS,
    VERSIONS,
    Cell,
    Outcome,
    cells_of_threes,
    codes,
    compiled,
    documents,
    every_cell,
    is_error,
    kind_of,
    one_of_each,
)
from matrix_page import page
from matrix_schemas import DEFINITIONS, faults, of_others, releases

from definitions import CRDS, ask_until_served, install
from etcompile import Compilation
from etcompile.check.kubernetes import versions
from etcompile.model import GANGS
from keysources import Means

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
FIRST = Cell("plain", "TrainingJob", "none", "runtime")
TOOLS = (
    "argocd.argoproj.io",
    "kustomize.toolkit.fluxcd.io",
    "kapp.k14s.io",
    "config.kubernetes.io",
)
AGAIN = "pytest -m programs tests/matrix --update-goldens"
ALL = pytest.param("all", marks=pytest.mark.programs)  # a minute


@pytest.fixture(scope="module", params=["threes", ALL])
def compiled_cells(
    request: pytest.FixtureRequest, means: Means
) -> tuple[dict[Cell, Outcome], list[str]]:
    """What each cell comes to, and what schemas have against its objects."""
    outcomes, wrong = {}, []
    for cell in every_cell() if request.param == "all" else cells_of_threes():
        compilation = compiled(cell, means)
        reported, with_run = codes(compilation), None
        if is_error(reported):
            compilation = compiled(cell, means, run=RUN)
            with_run = codes(compilation)
        wrong += [
            f"{cell}: {one}" for value in one_of_each(compilation) for one in faults(value, "1.37")
        ]
        outcomes[cell] = outcome(compilation, reported, with_run)
    return outcomes, wrong


def outcome(
    compilation: Compilation, reported: frozenset[str], with_run: frozenset[str] | None = None
) -> Outcome:
    kinds, pods, minimum = set(), 0, None
    for value in compilation.in_order():
        kinds.add(kind_of(value))
        pods += value["kind"] in ("Pod", "Job")
        if value["kind"] == "PodGroup":
            minimum = value["spec"].get("minMember", minimum)
    return Outcome(reported, with_run, frozenset(kinds), pods, minimum)


def test_any_options_of_three_dimensions_meet() -> None:
    def met(cells: Iterable[Cell]) -> set[tuple[Any, ...]]:
        places = [*itertools.combinations(range(4), 3)]
        return {(three, *(cell[at] for at in three)) for cell in cells for three in places}

    assert met(cells_of_threes()) == met(every_cell())


def test_every_cell_compiles_as_it_is_or_as_a_run(compiled_cells: Any) -> None:
    outcomes, _ = compiled_cells
    size = len(KINDS) * len(GANGS) * len(SECRETS)
    assert len(outcomes) in (size, size * len(PROFILES))
    assert [cell for cell, outcome in outcomes.items() if outcome.refused] == []
    refused = {cell.gang for cell, outcome in outcomes.items() if is_error(outcome.codes)}
    assert refused == {"kueue"}


def test_every_object_of_every_cell_passes_its_schema(compiled_cells: Any) -> None:
    assert compiled_cells[1] == []


def test_a_gang_and_a_key_pair_do_not_change_what_the_other_brings(compiled_cells: Any) -> None:
    outcomes, _ = compiled_cells
    # Whatever the profile is: of three options one may have another than its neighbour.
    kinds = {(cell.kind, cell.gang, cell.secret): one.kinds for cell, one in outcomes.items()}
    for cell, outcome in outcomes.items():
        gang = kinds[cell.kind, cell.gang, "runtime"]
        keys = kinds[cell.kind, "none", cell.secret]
        neither = kinds[cell.kind, "none", "runtime"]
        assert outcome.kinds == (gang - neither) | (keys - (neither - gang)), cell


@functools.cache
def pairs() -> list[Cell]:
    """Cells in which each option of a dimension meets each of every other."""
    sizes = len(PROFILES), len(KINDS), len(GANGS), len(SECRETS)
    options = tuple(PROFILES), tuple(KINDS), GANGS, tuple(SECRETS)
    missing = {
        (a, x, b, y)
        for a, b in itertools.combinations(range(4), 2)
        for x in range(sizes[a])
        for y in range(sizes[b])
    }
    every = list(itertools.product(*map(range, sizes)))
    chosen = []
    while missing:
        best = max(every, key=lambda one: sum(pair in missing for pair in _of(one)))
        missing -= set(_of(best))
        chosen.append(Cell(*(options[place][which] for place, which in enumerate(best))))
    return chosen


def _of(one: tuple[int, ...]) -> list[tuple[int, int, int, int]]:
    return [(a, one[a], b, one[b]) for a, b in itertools.combinations(range(4), 2)]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_pair_of_options_passes_the_schemas_of_old_and_new_kubernetes(
    means: Means, version: str
) -> None:
    for cell in pairs():
        compilation = compiled(cell, means, version=version, run=RUN)
        if cell.gang == "native" and version != "1.37":
            assert {code for code in codes(compilation) if code.endswith("!")} == {"ET2087!"}
            continue
        assert compilation.ok, (cell, compilation.diagnostics)
        for value in compilation.in_order():
            assert faults(dict(value), version) == [], cell


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_annotates_job_objects_identically_for_every_gang_and_secret_mode(
    means: Means, profile: str
) -> None:
    def annotations_of(gang: str, secret: str) -> dict[tuple[str, str], dict[str, str]]:
        compilation = compiled(Cell(profile, "TrainingJob", gang, secret), means, run=RUN)
        return {(o["kind"], o["metadata"]["name"]): of_tools(o) for o in compilation.in_order()}

    first = annotations_of("none", "runtime")
    for gang, secret in itertools.product(GANGS, SECRETS):
        other = annotations_of(gang, secret)
        for key, before in first.items():
            # A Pod of a gang must not wait for another to run: they start together.
            job_objects = {
                k: v for k, v in before.items() if gang == "none" or not k.endswith("depends-on")
            }
            assert other[key] == job_objects, (gang, secret, key)


def test_where_the_keys_come_from_changes_nothing_in_a_job_without_any(means: Means) -> None:
    for kind in KINDS:
        first = FIRST._replace(kind=kind)
        before = [without_settings(value) for value in compiled(first, means).in_order()]
        if any(map(mounts_keys, before)):
            continue
        for secret in SECRETS:
            compilation = compiled(first._replace(secret=secret), means)
            assert [without_settings(value) for value in compilation.in_order()] == before, (
                kind,
                secret,
            )


def mounts_keys(value: Any) -> bool:
    return value["kind"] in ("Pod", "Job") and "'secret'" in str(value["spec"])


def without_settings(value: Any) -> Any:
    """The object, without the stored job: it names the mode."""
    if value["kind"] != "ConfigMap" or "job.yaml" not in value.get("data", {}):
        return value
    stored = yaml.safe_load(value["data"]["job.yaml"])
    del stored["settings"]["secret"]
    return {**value, "data": {**value["data"], "job.yaml": stored}}


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)
def test_the_schema_of_an_object_of_others_refuses_a_field_that_it_lacks(
    means: Means, path: Path
) -> None:
    definition = yaml.safe_load(path.read_text())["spec"]
    kind = f"{definition['names']['kind']}.{definition['group']}"
    compilations = (
        compiled(FIRST._replace(gang=gang, secret=secret), means, run=RUN)
        for gang, secret in itertools.zip_longest(GANGS, SECRETS, fillvalue="none")
    )
    value = next(dict(v) for one in compilations for v in one.in_order() if kind_of(v) == kind)
    assert faults(value, "1.37") == []
    assert faults({**value, "spec": {**value["spec"], "sizes": 1}}, "1.37") != []


def test_kubernetes_schema_refuses_a_field_that_a_version_lacks(means: Means) -> None:
    pod = next(dict(v) for v in compiled(FIRST, means).in_order() if v["kind"] == "Pod")
    grouped = {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": "g"}}}
    assert [faults(grouped, version) == [] for version in VERSIONS] == [False, False, True]


# The page ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled_cells", [ALL], indirect=True)
def test_the_page_is_what_the_compiler_does(
    compiled_cells: Any, means: Means, request: pytest.FixtureRequest
) -> None:
    outcomes, _ = compiled_cells
    text = page(outcomes, by_version(means), without_namespace(means), annotated(means), releases())
    if request.config.getoption("--update-goldens"):
        PAGE.write_text(text, "utf-8")
    assert PAGE.read_text("utf-8") == text, f"run: {AGAIN}"


def by_version(means: Means) -> dict[tuple[str, str], Outcome]:
    outcomes = {}
    for gang, version in itertools.product(GANGS, versions()):
        one = compiled(FIRST._replace(gang=gang), means, version=version, run=RUN)
        kinds = frozenset(f"{v['kind']}.{v['apiVersion']}" for v in one.in_order())
        outcomes[gang, version] = outcome(one, codes(one))._replace(kinds=kinds)
    return outcomes


def without_namespace(means: Means) -> dict[str, list[str]]:
    """Of each dimension, what assumes a namespace for a job that names none."""
    dimensions = {"profile": PROFILES, "kind": KINDS, "gang": GANGS, "secret": SECRETS}
    titles = {"profile": "profile", "kind": "kind", "gang": "gang scheduler", "secret": "keys"}
    return {
        titles[name]: [
            option
            for option in options
            if "ET2043" in codes(compiled(FIRST._replace(**{name: option}), means, bare=True))
        ]
        for name, options in dimensions.items()
    }


def annotated(means: Means) -> dict[str, dict[str, str]]:
    """Of each kind that other options than the profile bring, what each profile says of it."""
    rows: dict[str, dict[str, str]] = {}
    options = [*((gang, "runtime") for gang in GANGS), *(("none", secret) for secret in SECRETS)]
    for gang, secret in options:
        for profile in PROFILES:
            cell = Cell(profile, "TrainingJob", gang, secret)
            for value in compiled(cell, means, run=RUN).in_order():
                if of_others(value) or value["kind"] in ("PodGroup", "Secret"):
                    row = rows.setdefault(f"`{kind_of(value)}`", {})
                    row[profile] = _said(value)
    return rows


def of_tools(value: Any) -> dict[str, str]:
    """The annotations of an object that sync tools read."""
    notes = value["metadata"].get("annotations", {})
    return {key: text for key, text in notes.items() if key.partition("/")[0] in TOOLS}


def _said(value: Any) -> str:
    job = documents("TrainingJob")[0].name or ""
    said = [
        f"`{key.rpartition('/')[2]}: {text}`".replace(f"/{job}-", "/J-")
        for key, text in of_tools(value).items()
    ]
    return "<br>".join(said) or "-"


# A real API server ------------------------------------------------------------------------------


def test_a_real_api_server_takes_the_objects_that_bring_keys(
    control_plane: Any, namespace: str, means: Means
) -> None:
    """With the third parties' definitions installed, and unknown fields refused."""
    install(control_plane, sorted((CRDS / "secrets").glob("*.yaml")))
    kinds = set()
    for kind, secret in itertools.product(("TrainingJob", "MPIJob v2beta1"), SECRETS):
        for value in compiled(FIRST._replace(kind=kind, secret=secret), means).in_order():
            if of_others(value):
                placed = {**value, "metadata": {**value["metadata"], "namespace": namespace}}
                plural = f"{value['kind'].lower()}s".replace("classs", "classes")
                url = f"/apis/{value['apiVersion']}/namespaces/{namespace}/{plural}"
                created = ask_until_served(
                    control_plane, f"{url}?dryRun=All&fieldValidation=Strict", placed
                )
                assert created["kind"] == value["kind"]
                kinds.add(value["kind"])
    assert kinds == {"SSHKey", "ExternalSecret", "SealedSecret", "SecretProviderClass"}
