"""Every example with every gang scheduler, held against the schemas of third parties.

Those of PodGroups are in tests/data/crds, as their projects publish them; Pods and Kubernetes'
own PodGroups are held against Kubernetes' schema.
"""

import copy
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

import etcompile
from etcompile import Options, Settings
from etcompile.check.kubernetes import check_value

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*/*/job.yaml"))
DEFINITIONS = sorted((ROOT / "tests" / "data" / "crds").glob("*.yaml"))
SCHEDULERS = ("volcano", "coscheduling", "kueue", "native", "yunikorn", "kai", "koordinator")
VERSIONS = {"native": ("1.35", "1.36", "1.37")}


def closed(schema: Any) -> Any:
    """A structural schema that takes no field it does not name, as a strict API server."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(made.get("properties"), dict) and not is_open:
        made.setdefault("additionalProperties", False)
    return made


def schemas() -> dict[tuple[str, str], Any]:
    """The schema of each kind, by apiVersion and kind."""
    found = {}
    for path in DEFINITIONS:
        definition = yaml.safe_load(path.read_text())["spec"]
        for version in definition["versions"]:
            schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
            key = f"{definition['group']}/{version['name']}", definition["names"]["kind"]
            found[key] = closed(schema)
    return found


SCHEMAS = schemas()


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
            if schema := SCHEMAS.get((value["apiVersion"], value["kind"])):
                jsonschema.validate(value, schema)
            elif value["kind"] in ("Pod", "Job", "PodGroup", "Workload"):
                assert check_value(dict(value), version) == []
        assert bool(groups) == (gang not in ("kueue", "yunikorn"))


@pytest.mark.parametrize("version", VERSIONS["native"])
def test_kubernetes_own_schema_takes_its_own_gangs(version: str) -> None:
    made = compiled(EXAMPLES[0], "native", version).objects
    for kind in ("Pod", "Workload" if version == "1.35" else "PodGroup"):
        value = next(value for value in made if value["kind"] == kind)
        kubernetes_validate.validate(value, version, strict=True)


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)
def test_a_group_with_a_field_that_its_schema_lacks_is_refused(path: Path) -> None:
    made = compiled(EXAMPLES[0], path.stem, "1.37")
    [value] = [dict(value) for value in made.objects if value["kind"] == "PodGroup"]
    schema = SCHEMAS[value["apiVersion"], "PodGroup"]
    wrong = {**value, "spec": {**value["spec"], "minMembers": 1}}
    with pytest.raises(jsonschema.ValidationError, match="minMembers"):
        jsonschema.validate(wrong, schema)


def test_a_real_api_server_takes_every_group(control_plane, namespace) -> None:
    """With the third parties' definitions installed, and unknown fields refused."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path in DEFINITIONS:
        definition = yaml.safe_load(path.read_text())
        control_plane.ask("POST", crds, definition)
    for path in DEFINITIONS:
        definition = yaml.safe_load(path.read_text())["spec"]
        for example in EXAMPLES:
            for value in compiled(example, path.stem, "1.37").objects:
                if value["kind"] != "PodGroup":
                    continue
                placed = {**value, "metadata": {**value["metadata"], "namespace": namespace}}
                url = f"/apis/{value['apiVersion']}/namespaces/{namespace}/podgroups"
                how = "?dryRun=All&fieldValidation=Strict"
                made = asked_until_served(control_plane, url + how, placed)
                assert made["spec"].items() >= value["spec"].items(), definition["group"]


def asked_until_served(plane: Any, url: str, value: Any) -> Any:
    """The answer of an API server that may need a moment before it serves a new kind."""
    import time
    import urllib.error

    for _ in range(100):
        try:
            return plane.ask("POST", url, value)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise AssertionError(error.read().decode()) from error
            time.sleep(0.1)
    raise AssertionError(f"{url} is not served")
