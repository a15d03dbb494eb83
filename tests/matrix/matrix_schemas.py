"""The schemas that every object of the matrix is held against, each compiled once.

Kubernetes' own are the strict ones of the `kubernetes-validate` package; those of other projects
are their CustomResourceDefinitions in tests/data/crds, made as strict. An ElasticJob that stays one
is held against etcompile's own schema.
"""

import functools
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

import kubernetes_schemas
from definitions import CRDS, structural_schemas
from etcompile.check.json_schemas import bundled_schema

DEFINITIONS = sorted(CRDS.rglob("*.yaml"))


def faults(value: dict[str, Any], version: str) -> list[str]:
    """What the schema of an object has against it, in words.

    Args:
        version: The version of Kubernetes, for a kind of its own.
    """
    validator = _of_others().get((value["apiVersion"], value["kind"]))
    if isinstance(value.get("sops"), dict):  # what is in it, only SOPS can tell
        value = {key: part for key, part in value.items() if key not in ("sops", "data")}
    name = value["metadata"].get("name")
    if validator is None:
        problems = kubernetes_schemas.faults(value, version)
    elif validator.is_valid(value):
        problems = []
    else:
        problems = [
            f"{'.'.join(map(str, error.instance_path))}: {error.message}"
            for error in validator.iter_errors(value)
        ]
    return [f"{value['kind']} {name}: {one}" for one in problems]


def of_others(value: dict[str, Any]) -> bool:
    """Whether an object is of a kind that is not Kubernetes' own."""
    return (value["apiVersion"], value["kind"]) in _of_others()


def releases() -> dict[str, str]:
    """Of each kind that is not Kubernetes' own: the release whose definition is held against it."""
    versions = {}
    for path in DEFINITIONS:
        text = path.read_text("utf-8")
        definition = yaml.safe_load(text)["spec"]
        words = text.splitlines()[1].removeprefix("# of ").removeprefix("the Go module ").split()
        versions[f"{definition['names']['kind']}.{definition['group']}"] = " ".join(words[:2])
    return versions


@functools.cache
def _of_others() -> dict[tuple[str, str], jsonschema_rs.Validator]:
    validators = {
        kind: jsonschema_rs.Draft202012Validator(schema)
        for kind, schema in structural_schemas(DEFINITIONS).items()
    }
    # What DLRover publishes of its kind says little; ours says all that its master reads.
    elastic_job = jsonschema_rs.Draft202012Validator(bundled_schema(Path("ElasticJob.json")))
    return {**validators, ("elastic.iml.github.io/v1alpha1", "ElasticJob"): elastic_job}
