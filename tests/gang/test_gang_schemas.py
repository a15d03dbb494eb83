"""Every example with every gang scheduler, held against the schemas of third parties.

Those of PodGroups are in tests/data/crds, as their projects publish them; Pods and Kubernetes'
own PodGroups are held against Kubernetes' schema.
"""

from pathlib import Path

import jsonschema
import jsonschema_rs
import pytest
import yaml

import etcompile
from definitions import CRDS, ask_until_served, install, structural_schemas
from etcompile import Options, Settings
from etcompile.model import GANGS
from kubernetes_schemas import faults

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/*/job.yaml"))
DEFINITIONS = sorted(CRDS.glob("*.yaml"))
SCHEDULERS = GANGS[1:]
WITHOUT_GROUP = ("kueue", "yunikorn")
VERSIONS = {"native": ("1.35", "1.36", "1.37")}


SCHEMAS = structural_schemas(DEFINITIONS)
VALIDATORS = {kind: jsonschema_rs.Draft202012Validator(one) for kind, one in SCHEMAS.items()}


def compiled(example: Path, gang: str, version: str) -> etcompile.Compilation:
    settings = Settings(gang=gang, run="r1", kubernetes_version=version)
    # Some examples scale in a Pod that Kueue has admitted with others, which it cannot lose.
    scalers = "scale-*.yaml" if gang == "kueue" else "none"
    files = [path for path in sorted(example.parent.glob("*.yaml")) if not path.match(scalers)]
    compilation = etcompile.compile(files, Options(settings=settings))
    assert compilation.ok, compilation.diagnostics
    return compilation


@pytest.mark.parametrize("gang", SCHEDULERS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_with_every_scheduler_passes_their_schemas(example: Path, gang: str) -> None:
    for version in VERSIONS.get(gang, ("1.37",)):
        groups = []
        for value in compiled(example, gang, version).objects:
            if value["kind"] in ("PodGroup", "Workload"):
                groups.append(value)
            if validator := VALIDATORS.get((value["apiVersion"], value["kind"])):
                validator.validate(dict(value))
            elif value["kind"] in ("Pod", "Job", "PodGroup", "Workload"):
                assert faults(value, version) == []
        assert bool(groups) == (gang not in WITHOUT_GROUP)


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)
def test_a_group_with_a_field_that_its_schema_lacks_is_refused(path: Path) -> None:
    compilation = compiled(EXAMPLES[0], path.stem, "1.37")
    [value] = [dict(value) for value in compilation.objects if value["kind"] == "PodGroup"]
    schema = SCHEMAS[value["apiVersion"], "PodGroup"]
    wrong = {**value, "spec": {**value["spec"], "minMembers": 1}}
    with pytest.raises(jsonschema.ValidationError, match="minMembers"):
        jsonschema.validate(wrong, schema)


def test_a_real_api_server_takes_every_group(control_plane, namespace) -> None:
    """With the third parties' definitions installed, and unknown fields refused."""
    install(control_plane, DEFINITIONS)
    for path in DEFINITIONS:
        definition = yaml.safe_load(path.read_text())["spec"]
        for example in EXAMPLES:
            for value in compiled(example, path.stem, "1.37").objects:
                if value["kind"] != "PodGroup":
                    continue
                placed = {**value, "metadata": {**value["metadata"], "namespace": namespace}}
                url = f"/apis/{value['apiVersion']}/namespaces/{namespace}/podgroups"
                how = "?dryRun=All&fieldValidation=Strict"
                created = ask_until_served(control_plane, url + how, placed)
                assert created["spec"].items() >= value["spec"].items(), definition["group"]
