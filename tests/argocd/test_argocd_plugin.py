"""The plugin as Argo CD's server for plugins runs it: by plugin.yaml, in a source, with variables.

That server starts each command in the source's folder, takes standard output for objects (or JSON)
and shows standard error to people; `tests/gitops` has the real one do it.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec import Struct

import etcompile
from etcompile import emit
from etcompile.check import kubernetes
from etcompile.cli import argocd
from etcompile.data import setting_schemas
from etcompile.integrations.argocd_plugin import PARAMETERS
from etcompile.model import DLROVER_NEWEST, GANGS, PROFILES
from specs import kubeflow_job, manifest, overlay, training_job, with_worker

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/*/*/"))
OF_BUILD = {
    "ARGOCD_APP_NAME": "bert",
    "ARGOCD_APP_NAMESPACE": "nlp",
    "ARGOCD_APP_REVISION": "0f3a9c1b2d4e",
    "KUBE_VERSION": "1.34.4",
    "KUBE_API_VERSIONS": "v1,apps/v1",
}


@pytest.fixture(scope="module")
def plugin() -> dict[str, Any]:
    return yaml.safe_load(ran(["argocd", "plugin"]).stdout)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository with a job in `team/jobs`, an overlay beside it, and something outside."""
    jobs = tmp_path / "repo" / "team" / "jobs"
    jobs.mkdir(parents=True)
    write(jobs / "bert.yaml", training_job("bert"))
    prod = tmp_path / "repo" / "team" / "prod"
    prod.mkdir()
    write(prod / "overlay.yaml", overlay(settings={"kubernetesVersion": "1.31"}))
    write(tmp_path / "elsewhere.yaml", training_job("secret"))
    return jobs


def write(path: Path, *values: Any) -> None:
    path.write_text(yaml.safe_dump_all(values))


class Done(Struct, frozen=True):
    returncode: int
    stdout: str
    stderr: str


def ran(words: list[str], cwd: Path | None = None, variables: dict[str, str] | None = None) -> Done:
    """A command of the plugin, as the server runs it, in this process."""
    environment: dict[str, str | None] = {
        name: None for name in os.environ if name.startswith(("ARGOCD_", "KUBE_"))
    }
    with contextlib.chdir(cwd or Path.cwd()):
        done = CliRunner().invoke(
            argocd.command, words[1:], env={**environment, **(variables or {})}
        )
    assert words[0] == "argocd"
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def apart(words: list[str], cwd: Path, variables: dict[str, str] | None = None) -> Done:
    """The same in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "etcompile", *words],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def generate(
    source: Path,
    *parameters: dict[str, Any],
    variables: dict[str, str] | None = None,
    words: tuple[str, ...] = (),
    run: Callable[..., Done] = ran,
) -> Done:
    """What `generate` does for an Application whose source is `team/jobs`."""
    application = {
        **OF_BUILD,
        "ARGOCD_APP_SOURCE_PATH": "team/jobs",
        "ARGOCD_APP_PARAMETERS": json.dumps([*parameters] or None),
    }
    return run(["argocd", "generate", *words], source, {**application, **(variables or {})})


def objects(done: Done) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [*yaml.safe_load_all(done.stdout)]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one for one in objects if one["kind"] == kind]


def stored(objects: list[dict[str, Any]]) -> dict[str, Any]:
    [config] = of_kind(objects, "ConfigMap")
    return yaml.safe_load(config["data"]["job.yaml"])["settings"]


def refusal(done: Done) -> str:
    """Why nothing was generated. Nothing on standard output: that would be applied."""
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr


# ---- plugin.yaml ---------------------------------------------------------------------------------


def test_plugin_yaml_is_what_the_plugin_server_reads_and_runs(plugin, source):
    assert plugin["apiVersion"] == "argoproj.io/v1alpha1"
    assert plugin["kind"] == "ConfigManagementPlugin"
    spec = plugin["spec"]
    assert set(spec) == {"version", "discover", "generate", "parameters"}
    for one in (spec["discover"]["find"], spec["generate"]):
        assert one["command"][:2] == ["etcompile", "argocd"]
        assert apart(one["command"][1:], source, {"ARGOCD_APP_PARAMETERS": "null"}).returncode == 0


def test_announcements_have_the_fields_that_argo_cd_knows(plugin):
    static = plugin["spec"]["parameters"]["static"]
    known = {"name", "title", "tooltip", "itemType", "collectionType", "string", "array", "map"}
    for one in static:
        assert set(one) <= known
        assert one.get("collectionType", "string") in one
    assert [one["name"] for one in static] == [one.name for one in PARAMETERS]


def test_announcements_name_what_there_is():
    tooltips = {one.name: one.announcement["tooltip"] for one in PARAMETERS}
    assert f": {', '.join(PROFILES)}." in tooltips["profile"]
    assert f"One of {', '.join(GANGS)}." in tooltips["gang"]
    assert "{}.{}.".format(*DLROVER_NEWEST) in tooltips["dlrover-version"]


def test_a_setting_of_render_is_a_parameter_unless_it_could_do_harm():
    of_output = {"split", "layout"}
    of_other_commands = {"capacity", "price", "set", "drain", "take-ownership", "concurrency"}
    of_other_commands |= {"ignore-differences", "repository-name"}
    talk = {"output-format", "color", "quiet"}
    # Templates are programs, which would run in Argo CD; Secrets would be in Git.
    harmful = {"templates", "allow-plain-secrets"}
    # Which files count is what the repository says, not each Application.
    others = {"exclude", *of_output, *of_other_commands, *talk, *harmful}
    offered = {one.name for one in PARAMETERS} - {"paths", "environment", "images", "labels"}
    assert {*setting_schemas()} - others == offered


# ---- generate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_is_generated_as_it_is_rendered(example):
    done = ran(["argocd", "generate"], example, {**OF_BUILD, "ARGOCD_APP_PARAMETERS": "null"})
    settings = etcompile.Settings(profiles=("argocd",), kubernetes_version="1.34")
    rendered = etcompile.compile([example], etcompile.Options(settings=settings))
    wanted = [*yaml.safe_load_all(emit.stream(rendered.objects, ()))]
    assert objects(done) == wanted


def test_what_names_no_namespace_goes_to_the_destination(source):
    write(source / "other.yaml", kubeflow_job("TFJob", {"Worker": 1}))
    other = kubeflow_job("JAXJob", {"Worker": 2})
    other["metadata"] = {"name": "elsewhere", "namespace": "vision"}
    write(source / "elsewhere.yaml", other)
    pods = of_kind(objects(generate(source)), "Pod")
    assert {
        (one["metadata"]["labels"]["etcompile.dev/job"], one["metadata"]["namespace"])
        for one in pods
    } == {("bert", "nlp"), ("mnist", "nlp"), ("elsewhere", "vision")}


def test_job_in_another_namespace_than_the_requested_one_is_refused(source):
    document = training_job("other")
    document["metadata"]["namespace"] = "vision"
    write(source / "other.yaml", document)
    message = refusal(generate(source, {"name": "namespace", "string": "nlp"}))
    assert "'other' is in 'vision'" in message


def test_an_overlay_moves_what_names_no_namespace(source):
    write(source.parent / "prod" / "overlay.yaml", overlay(namespace="prod"))
    rendered = objects(generate(source, {"name": "overlay", "array": ["../prod"]}))
    assert {one["metadata"]["namespace"] for one in rendered} == {"prod"}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("1.34.4", "1.34"),
        ("v1.33", "1.33"),
        ("1.99.0", kubernetes.versions()[-1]),  # newer than we are: it is synced all the same
        ("1.2", kubernetes.versions()[0]),
        ("", "1.37"),
    ],
)
def test_the_cluster_says_its_version(source, said, wanted):
    rendered = objects(generate(source, variables={"KUBE_VERSION": said}))
    assert stored(rendered)["kubernetesVersion"] == wanted


def test_a_version_in_git_counts_more_than_the_clusters(source):
    prod = {"name": "overlay", "array": ["../prod"]}
    assert stored(objects(generate(source, prod)))["kubernetesVersion"] == "1.31"
    parameter = {"name": "kubernetes-version", "string": "1.32"}
    assert stored(objects(generate(source, prod, parameter)))["kubernetesVersion"] == "1.32"


def test_the_clusters_version_is_known_to_a_scheduler_that_needs_it(source):
    write(source / "bert.yaml", kubeflow_job("PyTorchJob", {"Worker": 2}))
    native = {"name": "gang", "string": "native"}
    rendered = objects(generate(source, native, variables={"KUBE_VERSION": "1.37"}))
    assert stored(rendered)["gang"] == "native"


def test_parameters_are_options_of_render(source):
    said = {"secret": "existing:keys", "services": "shared", "run": "two", "gang": "volcano"}
    others = {"strict": "false", "ignore-managed-by": "true", "skip-managed-by": "true"}
    parameters = {**said, **others, "init-image": ""}.items()
    profiles = ["argocd", "kpt"]
    texts = [{"name": name, "string": text} for name, text in parameters]
    rendered = objects(generate(source, *texts, {"name": "profile", "array": profiles}))
    assert {**said, "profiles": profiles}.items() <= stored(rendered).items()
    assert "bert-two-launcher" in {one["metadata"]["name"] for one in of_kind(rendered, "Pod")}


def test_objects_without_a_profile_have_sync_waves(source):
    notes = [one["metadata"].get("annotations", {}) for one in objects(generate(source))]
    assert all("argocd.argoproj.io/sync-wave" in one for one in notes)


def test_parameters_come_after_the_options_of_plugin_yaml(source):
    words = ("--config", "secret=existing:of-all", "--config", "services=shared")
    done = generate(source, {"name": "secret", "string": "external"}, words=words)
    settings = stored(objects(done))
    assert (settings["secret"], settings["services"]) == ("external", "shared")


def test_images_and_labels_are_maps(source):
    whole = "reg.example.com:5000/hvd:2@sha256:" + "0" * 64
    labels = {"name": "labels", "map": {"team": "nlp"}}
    # An image of a tag alone keeps its name.
    for new, wanted in ((whole, whole), (":0.29.0", "horovod/horovod:0.29.0")):
        images = {"name": "images", "map": {"horovod/horovod": new}}
        rendered = objects(generate(source, images, labels))
        pods = of_kind(rendered, "Pod")
        assert {one["spec"]["containers"][0]["image"] for one in pods} == {wanted}
        assert {one["metadata"]["labels"].get("team") for one in rendered} == {"nlp"}


def test_variables_of_the_application_hold_what_parameters_cannot(source):
    variables = {
        "ARGOCD_ENV_ETCOMPILE_RUN": "r0f3a9c1",  # $ARGOCD_APP_REVISION_SHORT, filled in
        "ARGOCD_ENV_ETCOMPILE_PROFILE": "argocd, kpt",
        "ARGOCD_ENV_OTHER": "is of somebody else",
    }
    settings = stored(objects(generate(source, variables=variables)))
    assert (settings["run"], settings["profiles"]) == ("r0f3a9c1", ["argocd", "kpt"])
    done = generate(source, {"name": "run", "string": "two"}, variables=variables)
    assert stored(objects(done))["run"] == "two"


def test_paths_name_what_is_compiled(source):
    write(source / "more.yaml", training_job("gpt"))
    rendered = objects(generate(source, {"name": "paths", "array": ["more.yaml"]}))
    assert {one["metadata"]["labels"]["etcompile.dev/job"] for one in rendered} == {"gpt"}


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"name": "secrt", "string": "external"}, "did you mean 'secret'?"),
        ({"name": "templates", "string": "."}, "there is no such parameter"),
        ({"name": "secret", "string": "nonsense"}, "'nonsense' is not one of"),
        ({"name": "secret", "array": ["external", "runtime"]}, "it takes one value"),
        ({"name": "services", "string": "many"}, "'many' is not one of"),
        ({"name": "strict", "string": "yes"}, "'yes' is no boolean"),
        ({"name": "images", "string": "x"}, "it takes pairs"),
        ({"name": "images", "map": {"no/such": "x"}}, "ET6001"),
        ({"name": "kubernetes-version", "string": "1.99"}, "1.99 is not known"),
        ({"name": "run", "string": "--help"}, "--help"),
        ({"name": "paths", "array": ["../../.."]}, "is not in the repository"),
        ({"name": "paths", "array": ["../../../elsewhere.yaml"]}, "is not in the repository"),
        ({"name": "paths", "array": ["/etc"]}, "is not in the repository"),
        ({"name": "paths", "array": ["-"]}, "names no file"),
        ({"name": "overlay", "array": ["/etc/passwd"]}, "is not in the repository"),
        ({"name": "overlay", "array": ["link.yaml"]}, "is not in the repository"),
        ({"name": "secret", "string": "csi:/etc/class.yaml"}, "is not in the repository"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_an_error(source, parameter, message):
    if "link.yaml" in str(parameter):
        (source / "link.yaml").symlink_to(source.parents[2] / "elsewhere.yaml")
    assert message in refusal(generate(source, parameter, variables={"COLUMNS": "400"}))


def test_parameters_that_are_none_are_an_error(source):
    for text in ("{", '{"name": "x"}', "[1]", "3"):
        message = refusal(generate(source, variables={"ARGOCD_APP_PARAMETERS": text}))
        assert "ARGOCD_APP_PARAMETERS" in message


def test_invalid_job_is_reported_with_its_line_and_generates_nothing(source):
    document = training_job("bert", replicas=12)
    document["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    write(source / "bert.yaml", document)
    assert "--> bert.yaml:" in refusal(generate(source, run=apart)).replace("./", "")


def test_a_source_without_jobs_is_an_error_and_not_a_reason_to_prune_everything(source):
    (source / "bert.yaml").unlink()
    assert "error" in refusal(generate(source, run=apart))
    (source / "bert.yaml").write_text("# gone\n")
    assert "error" in refusal(generate(source))


def test_a_key_pair_that_would_be_another_one_every_time_is_an_error(source):
    refusal(generate(source, {"name": "secret", "string": "sops:age1" + "q" * 58}))


def test_warnings_go_to_standard_error(source):
    write(source / "bert.yaml", with_worker(image="horovod/horovod:latest"))
    done = generate(source)
    assert "warning" in done.stderr
    assert all("kind" in one for one in objects(done))


# ---- what it leaves alone ------------------------------------------------------------------------


def test_nothing_is_written_into_the_source(source):
    top = source.parents[1]

    def state() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in (top, *top.rglob("*"))
        }

    folders = [path for path in (top, *top.rglob("*")) if path.is_dir()]
    before = state()
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert generate(source, run=apart).returncode == 0
        assert apart(["argocd", "discover"], source, OF_BUILD).returncode == 0
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert state() == before


def test_generate_opens_no_network_connection(source):
    without = (
        "import socket, sys\n"
        "def refuse(*_a, **_k): raise AssertionError('asks the network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "sys.argv[1:] = ['argocd', 'generate']\n"
        "from etcompile.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", without],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], **OF_BUILD},
    )
    assert objects(Done(done.returncode, done.stdout, done.stderr))


# ---- discovery -----------------------------------------------------------------------------------


def discovered(source: Path, **variables: str) -> list[str]:
    done = ran(["argocd", "discover"], source, {**OF_BUILD, **variables})
    assert done.returncode == 0
    return [line.removeprefix("./") for line in done.stdout.split()]


def test_source_is_discovered_if_its_application_has_a_plugin_section(source):
    assert discovered(source, ARGOCD_APP_PARAMETERS="null") == ["bert.yaml"]


def test_a_source_of_jobs_is_somebody_elses_without_one(source):
    assert discovered(source) == []
    (source / "bert.yaml").rename(source / "bert.etjob.yaml")
    assert discovered(source) == ["bert.etjob.yaml"]


def test_a_source_without_jobs_is_not_found(source):
    write(source / "bert.yaml", manifest("ConfigMap", "a", data={"kind": "TFJob"}))
    assert discovered(source, ARGOCD_APP_PARAMETERS="null") == []


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion": "kubeflow.org/v1", "kind": "TFJob"}',
        "{apiVersion: kubeflow.org/v1, kind: TFJob}",
        "apiVersion: kubeflow.org/v1\nkind: 'TFJob' # a comment\n",
        "kind: TFJob\r\napiVersion: kubeflow.org/v1\r\n",
    ],
)
def test_job_is_discovered_in_any_yaml_style(source, text):
    (source / "bert.yaml").write_text(text)
    assert discovered(source, ARGOCD_APP_PARAMETERS="null") == ["bert.yaml"]


def test_source_with_jobs_in_another_folder_is_discovered(source):
    empty = source.parent / "empty"
    empty.mkdir()
    paths = json.dumps([{"name": "paths", "array": ["../jobs"]}])
    where = {"ARGOCD_APP_SOURCE_PATH": "team/empty", "ARGOCD_APP_PARAMETERS": paths}
    assert discovered(empty, **where) == ["../jobs/bert.yaml"]


# ---- what is told to Argo CD ---------------------------------------------------------------------


def test_the_sidecar_is_as_argo_cd_wants_it():
    patch = yaml.safe_load(ran(["argocd", "sidecar", "--image", "reg/etcompile:1"]).stdout)
    pod = patch["spec"]["template"]["spec"]
    [container] = pod["containers"]
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert container["image"] == "reg/etcompile:1"
    assert container["command"] == ["/var/run/argocd/argocd-cmp-server"]
    assert container["securityContext"]["runAsUser"] == 999
    assert mounts["/var/run/argocd"] == "var-files"
    assert mounts["/home/argocd/cmp-server/plugins"] == "plugins"
    assert mounts["/tmp"] in {one["name"] for one in pod["volumes"]}  # never the repo server's own


@pytest.mark.parametrize("extra", [[], ["--plugin"]])
def test_an_application_never_restarts_a_training(extra):
    words = ["--repository", "https://git.example.com/t.git", "--path", "out/prod", "-n", "nlp"]
    application = yaml.safe_load(ran(["argocd", "application", "bert", *words, *extra]).stdout)
    policy = application["spec"]["syncPolicy"]
    assert policy["automated"]["prune"] is True
    assert "ApplyOutOfSyncOnly=true" in policy["syncOptions"]
    forbidden = ("PruneLast", "Replace", "Force")
    assert not [one for one in policy["syncOptions"] if one.startswith(forbidden)]
    plugin = application["spec"]["source"].get("plugin")
    assert (plugin or {}).get("name") == ("etcompile-v1" if extra else None)


def test_the_image_of_the_sidecar_runs_what_plugin_yaml_says():
    text = (Path(__file__).parents[2] / "Dockerfile").read_text("utf-8")
    _, _, sidecar = text.partition("FROM base AS argocd\n")
    assert "argocd plugin >/plugin/home/argocd/cmp-server/config/plugin.yaml" in text
    assert "COPY --from=plugin /plugin /" in sidecar
    assert "USER 999:999" in sidecar
    assert "/var/run/argocd/argocd-cmp-server" in sidecar
