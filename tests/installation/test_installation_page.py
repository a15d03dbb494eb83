"""What the page on running the watcher shows is what there is."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from msgspec import structs

from etcompile.integrations.watcher_manifests import POLICY, Installation, manifests
from installation.choices import HERE, IMAGE
from installation.doors import (
    CHART,
    KUSTOMIZE,
    ROOT,
    Rendered,
    by_helm,
    by_kustomize,
    by_manifests,
    comparable,
)
from stability.test_version import published

PAGE = ROOT / "docs" / "watcher.md"
README = CHART / "README.md"
BAKED = "ghcr.io/etcompile/etcompile:dev"
"""What `docker buildx bake` builds."""
REMOTE = "https://github.com/etcompile/etcompile//templates/watcher/kustomize/"


def test_the_dashboard_of_the_chart_is_that_of_the_kustomization(request) -> None:
    """Neither Helm nor kustomize reads a file outside of its folder, so there are two."""
    [board] = (KUSTOMIZE / "components" / "dashboard").glob("*.json")
    copy = CHART / "dashboards" / board.name
    if request.config.getoption("--update-goldens"):
        copy.write_bytes(board.read_bytes())
    same = copy.read_bytes() == board.read_bytes()
    assert same, "run `pytest tests/installation --update-goldens`"


def test_the_policy_of_the_chart_is_that_of_the_kustomization() -> None:
    policy = manifests(HERE)[0]
    copy = yaml.safe_load((CHART / "files" / "policy.yaml").read_text("utf-8"))
    assert copy == policy["spec"]


@pytest.mark.parametrize("page", [PAGE, README], ids=lambda path: path.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text("utf-8"))
    links += ["/" + link for link in re.findall(r"blob/main/([\w/.-]+)\)", page.read_text("utf-8"))]
    assert links
    for link in links:
        target, _, anchor = link.partition("#")
        base = ROOT if target.startswith("/") else page.parent
        file = (base / target.lstrip("/")) if target else page
        assert file.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
            assert anchor in slugs, link


def blocks() -> dict[str, str]:
    fenced = re.findall(r"```yaml\n# (.*?)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return {title.partition(",")[0]: text for title, text in fenced}


def application() -> dict[str, Any]:
    return yaml.safe_load(blocks()["Argo CD"])


def flux() -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(blocks()["Flux"])]


def test_argo_cd_and_flux_examples_name_the_published_chart() -> None:
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    [registry] = yaml.safe_load(release)["jobs"]["chart"]["env"].values()
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    source = application()["spec"]["source"]
    repository, helm_release = flux()
    assert (source["repoURL"], source["chart"]) == (registry, chart["name"])
    assert source["targetRevision"] == published()
    assert repository["spec"]["url"] == f"oci://{registry}/{chart['name']}"
    assert repository["spec"]["ref"] == {"tag": published()}
    assert helm_release["spec"]["chartRef"]["name"] == repository["metadata"]["name"]
    for text in (PAGE.read_text("utf-8"), README.read_text("utf-8")):
        assert f"oci://{registry}/{chart['name']} --version {published()}" in text


def test_the_chart_takes_the_values_that_they_give() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    _, helm_release = flux()
    for values in (
        application()["spec"]["source"]["helm"]["valuesObject"],
        helm_release["spec"]["values"],
    ):
        assert values
        jsonschema.validate(values, schema)


def test_the_release_of_the_page_installs_what_the_manifests_do(consumer) -> None:
    values = application()["spec"]["source"]["helm"]["valuesObject"]
    wanted = Installation("etcompile-watch", ("nlp", "vision"), image=IMAGE)
    rendered = by_helm(consumer("helm"), values, namespace="etcompile-watch")
    assert comparable(rendered) == comparable(by_manifests(wanted))


def written(folder: Path) -> Path:
    """The kustomizations of the page, as files that read from this checkout."""
    above = "/".join([".."] * len(folder.parts[1:]))
    for name, text in blocks().items():
        if name.endswith("kustomization.yaml"):
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            up = "/.." * len(Path(name).parent.parts)
            local = re.sub(
                rf"{re.escape(REMOTE)}([\w/-]+)\?ref=\S+", rf"{above}{up}{KUSTOMIZE}/\1", text
            )
            assert "https:" not in local
            file.write_text(local)
    return folder


def test_the_kustomization_of_one_namespace_is_built(consumer, tmp_path: Path) -> None:
    folder, kustomize = written(tmp_path), consumer("kustomize")
    parts = [by_kustomize(kustomize, folder / name) for name in ("nlp", "policy")]
    rendered = Rendered(
        [value for part in parts for value in part.objects], {f"{POLICY}.nlp": POLICY}
    )
    wanted = structs.replace(HERE, image=BAKED, pod_monitor=True)
    assert comparable(rendered) == comparable(by_manifests(wanted))


def test_the_kustomization_of_all_namespaces_is_built(consumer, tmp_path: Path) -> None:
    rendered = by_kustomize(consumer("kustomize"), written(tmp_path) / "cluster")
    wanted = Installation("etcompile-watch", None, image=BAKED)
    assert comparable(rendered) == comparable(by_manifests(wanted))


def test_the_chart_of_a_checkout_is_where_the_page_says() -> None:
    lines = PAGE.read_text("utf-8").replace("\\\n", "").splitlines()
    installs = [line for line in lines if line.startswith("helm install")]
    local = [line for line in installs if "oci://" not in line]
    assert len(local) == 2
    for line in local:
        assert ROOT / line.split()[3].removeprefix("etcompile/") == CHART
        assert "image.tag=dev" in line


def test_the_kustomizations_of_several_namespaces_are_built(consumer, tmp_path: Path) -> None:
    folder = written(tmp_path)
    kustomize = consumer("kustomize")
    rights = (folder / "rights-nlp" / "kustomization.yaml").read_text("utf-8")
    other = folder / "rights-vision" / "kustomization.yaml"
    other.parent.mkdir()
    other.write_text(rights.replace("nlp", "vision"))
    names = ("watcher", "rights-nlp", "rights-vision")
    objects = [value for name in names for value in by_kustomize(kustomize, folder / name).objects]
    home = "etcompile-watch"
    wanted = Installation(home, ("nlp", "vision"), image=BAKED, policy=False)
    assert comparable(Rendered(objects)) == comparable(by_manifests(wanted))
