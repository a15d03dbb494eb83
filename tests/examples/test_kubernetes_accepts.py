"""Every object of every example passes Kubernetes' own strict schema."""

import os
from pathlib import Path

import pytest
from msgspec import structs

import etcompile
from etcompile import Options, SecretMode, Settings
from kubernetes_schemas import faults

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*/job.yaml"))
VERSIONS = os.environ.get("ETCOMPILE_KUBERNETES_VERSIONS", "1.25,1.31,1.37").split(",")
THIRD_PARTY = ("ElasticJob", "ExternalSecret", "SSHKey")

VARIANTS = {
    "default": Options(),
    "shared": Options(settings=Settings(services="shared")),
    "external": Options(settings=Settings(secret=SecretMode("external"))),
    "images": Options(settings=Settings(init_image="busybox:1.36", kubectl_image=None)),
    "dev": Options(overlays=("dev",)),
    "prod": Options(overlays=("prod",)),
    "resilient": Options(overlays=("resilient",)),
    "spot": Options(overlays=("spot",)),
}


CASES = [
    (variant, version)
    for variant in VARIANTS
    for version in VERSIONS
    # The settings of a variant are the same between the oldest version and the newest.
    if variant == "default" or version in (VERSIONS[0], VERSIONS[-1])
]


@pytest.mark.parametrize(("variant", "version"), CASES)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_objects_are_strictly_valid(example: Path, variant: str, version: str) -> None:
    options = VARIANTS[variant]
    settings = structs.replace(options.settings, kubernetes_version=version)
    options = structs.replace(
        options, settings=settings, explicit=frozenset({"kubernetes_version"})
    )
    compilation = etcompile.compile([example.parent], options)
    assert compilation.ok, compilation.diagnostics
    seen: set[str] = set()
    for value in compilation.objects:
        # One Pod of a role is as good as all of them.
        labels = value["metadata"]["labels"] if value["kind"] == "Pod" else {}
        key = f"{value['kind']} {labels.get('etcompile.dev/role')}"
        if value["kind"] not in THIRD_PARTY and key not in seen:
            seen.add(key)
            assert faults(value, version) == [], value["metadata"]["name"]
    # Where DLRover's master makes the others, it is the only Pod.
    assert seen & {"Pod worker", "Pod node", "Pod dlrover-master"}
