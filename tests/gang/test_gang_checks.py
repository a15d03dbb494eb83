"""The twelve checks and two warnings of reference/gang-scheduling.md 10, by their numbers.

Check E3, one scheduler and one priority, is tested for each kind in test_gang_rules_by_kind.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import etcompile
from commandline import at_a_shell
from etcompile import Options, Settings, configured_options
from etcompile.model import GANGS
from specs import compiled, kubeflow_job, patch, replicas, scale_in, training_job, worker

RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}}


def job(**policy: Any) -> dict[str, Any]:
    """A TFJob of a parameter server and two workers, with a schedulingPolicy."""
    roles = {
        name: replicas("TFJob", count, resources=RESOURCES)
        for name, count in (("PS", 1), ("Worker", 2))
    }
    return kubeflow_job("TFJob", roles, runPolicy={"schedulingPolicy": policy})


def problems(
    gang: str, *documents: Any, overlay: Any = None, run: str | None = "r1", **settings: Any
) -> list[tuple[str, str]]:
    """The codes and messages about documents, an overlay applied."""
    options = Options(
        namespace="ml",
        settings=Settings(gang=gang, run=run, **settings),
        overlays=() if overlay is None else (overlay,),
    )
    diagnostics = etcompile.compile(list(documents or [job()]), options).diagnostics
    return [(one.code, one.message) for one in diagnostics]


def codes(gang: str, *documents: Any, **options: Any) -> list[str]:
    return [code for code, _ in problems(gang, *documents, **options)]


ALL = GANGS[1:]


@pytest.mark.parametrize("gang", ALL)
def test_a_good_job_is_accepted(gang: str) -> None:
    assert problems(gang) == []


REFUSED = [
    *((gang, {"minAvailable": count}, {}, "ET2080") for gang in ALL for count in (0, 4)),  # E1
    ("volcano", {"queue": "Research"}, {}, "ET2081"),  # E2
    ("kueue", {"queue": "a.b"}, {}, "ET2081"),
    ("yunikorn", {"queue": "research"}, {}, "ET2081"),
    ("kai", {"queue": "a_b"}, {}, "ET2081"),
    ("koordinator", {"queue": "-a"}, {}, "ET2081"),
    ("volcano", {"priorityClass": "Very High"}, {}, "ET2081"),
    ("kueue", {}, {"run": None}, "ET2085"),  # E6
    ("native", {}, {"kubernetes_version": "1.34"}, "ET2087"),  # E8
]


@pytest.mark.parametrize(("gang", "policy", "settings", "code"), REFUSED)
def test_policy_or_setting_that_a_scheduler_cannot_have_is_refused(
    gang: str, policy: Any, settings: Any, code: str
) -> None:
    assert code in codes(gang, job(**policy), **settings)


def test_e1_a_minimum_below_the_roles_that_lead_is_refused() -> None:
    roles = {"PS": replicas("TFJob", 3, resources=RESOURCES), "Worker": replicas("TFJob", 1)}
    value = kubeflow_job("TFJob", roles, runPolicy={"schedulingPolicy": {"minAvailable": 2}})
    [message] = [text for code, text in problems("volcano", value) if code == "ET2080"]
    assert "2 Pods are less than the 3 of ps" in message


@pytest.mark.parametrize(
    ("gang", "version", "resizes"),
    [
        ("volcano", "1.37", True),
        ("kueue", "1.37", False),
        ("yunikorn", "1.37", False),
        ("native", "1.36", False),
        ("native", "1.37", True),
    ],
)
def test_e1_a_gang_shrinks_only_where_its_scheduler_lets_it(
    gang: str, version: str, resizes: bool
) -> None:
    value = training_job(replicas=3)
    for role in value["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["resources"] = RESOURCES
    del value["spec"]["etReplicaSpecs"]["launcher"]["template"]["spec"]["containers"][0]["command"]
    reported = codes(gang, value, scale_in("less", 1), kubernetes_version=version)
    assert ("ET2080" not in reported) == resizes


@pytest.mark.parametrize("gang", ALL)
def test_e4_container_without_resource_requests_is_an_error(gang: str) -> None:
    value = job()
    [main] = value["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    main["resources"] = {"limits": {"cpu": "1"}}
    assert problems(gang, value) == [
        ("ET2083", "these containers have no resource requests: worker/tensorflow (memory)")
    ]


@pytest.mark.parametrize("gang", ["volcano", "yunikorn", "kueue"])
def test_e5_pods_of_a_role_that_differ_are_an_error(gang: str) -> None:
    more = {"containers": [{"name": "tensorflow", "resources": {"requests": {"cpu": "2"}}}]}
    overlay = patch({"spec": more}, kind="Pod", name="*-worker-1")
    assert "ET2084" in codes(gang, overlay=overlay)


def test_e6_kueue_lets_no_pod_of_a_group_go() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 4, "rdzvHost": "host"}
    workers = replicas("PyTorchJob", 3, resources=RESOURCES)
    value = kubeflow_job("PyTorchJob", {"Worker": workers}, elasticPolicy=policy)
    for name, refused in (("mnist-worker-0", True), ("mnist-worker-2", False)):
        reported = problems("kueue", value, scale_in("less", [name], of="PyTorchJob"))
        said = [message for _, message in reported if f"it waits for {name}" in message]
        assert bool(said) == refused


def test_e8_kubernetes_itself_wants_its_version_said(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(job()))
    command = ("render", tmp_path / "job.json", "-n", "ml", "--config", "gang=native", "-q")
    done = at_a_shell(*command)
    assert done.returncode == 2
    assert "ET2087" in done.stderr
    for said in (("--config", "kubernetes-version=1.37"), ("--overlay", overlay_file(tmp_path))):
        assert at_a_shell(*command, *said).returncode == 0


@pytest.mark.parametrize(
    ("table", "chosen"),
    [
        ("", {"gang": "native"}),
        ('gang = "native"\n', {}),
        ("[environments.prod]\n", {"gang": "native", "environment": "prod"}),
    ],
)
def test_version_in_configuration_file_is_a_declared_version(
    tmp_path: Path, table: str, chosen: dict[str, str]
) -> None:
    (tmp_path / "etcompile.toml").write_text(f'{table}kubernetes-version = "1.36"\n')
    options = configured_options(tmp_path, namespace="ml", **chosen)
    compilation = etcompile.compile([job()], options)
    assert compilation.ok, compilation.diagnostics
    # It counts, and an overlay wins against it.
    overlay = str(overlay_file(tmp_path, "1.37"))
    later = configured_options(tmp_path, overlay=[overlay], **chosen)
    assert etcompile.compile([job()], later).settings.kubernetes_version == "1.37"


def test_environment_that_is_not_chosen_declares_no_version(tmp_path: Path) -> None:
    (tmp_path / "etcompile.toml").write_text('[environments.prod]\nkubernetes-version = "1.36"\n')
    options = configured_options(tmp_path, namespace="ml", gang="native")
    assert [one.code for one in etcompile.compile([job()], options).diagnostics] == ["ET2087"]


def overlay_file(folder: Path, version: str = "1.36") -> Path:
    path = folder / "env" / "overlay.yaml"
    path.parent.mkdir()
    path.write_text(
        "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n"
        f'settings: {{gang: native, kubernetesVersion: "{version}"}}\n'
    )
    return path


def test_e8_the_group_and_its_pods_have_one_priority() -> None:
    value = job(priorityClass="high")
    for role in value["spec"]["tfReplicaSpecs"].values():
        role["template"]["spec"]["priorityClassName"] = "low"
    assert "ET2087" in codes("native", value, kubernetes_version="1.37")
    assert codes("native", value, kubernetes_version="1.36") == []


def test_e9_a_placeholder_is_as_large_as_its_pod() -> None:
    more = {"containers": [{"name": "tensorflow", "resources": {"requests": {"cpu": "2"}}}]}
    reported = problems("yunikorn", overlay=patch({"spec": more}, kind="Pod", role="worker"))
    [message] = [message for code, message in reported if code == "ET2088"]
    assert "Pods of worker ask for more cpu than their placeholders" in message


@pytest.mark.parametrize("gang", ALL)
def test_e11_pods_that_are_created_later_would_be_waited_for(gang: str) -> None:
    value = job()
    notes = {"annotations": {"argocd.argoproj.io/sync-wave": "200"}}
    value["spec"]["tfReplicaSpecs"]["PS"]["template"]["metadata"] = notes
    # YuniKorn keeps their room meanwhile.
    assert ("ET2090" in codes(gang, value)) == (gang != "yunikorn")


def test_e11_kpt_creates_no_launcher_after_its_workers() -> None:
    value = training_job()
    for role in value["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["resources"] = RESOURCES
    for gang, waits in (("none", True), ("volcano", False)):
        settings = Settings(gang=gang, profiles=("kpt",))
        compilation = compiled(value, settings=settings, namespace="ml")
        [launcher] = [o for o in compilation.objects if o["metadata"]["name"] == "mnist-launcher"][
            -1:
        ]
        assert ("config.kubernetes.io/depends-on" in launcher["metadata"]["annotations"]) == waits


@pytest.mark.parametrize("gang", ["coscheduling", "native", "koordinator"])
def test_e12_leader_outside_the_minimum_members_is_an_error(gang: str) -> None:
    roles = {name: replicas("TFJob", 2, resources=RESOURCES) for name in ("PS", "Worker")}
    value = kubeflow_job("TFJob", roles, runPolicy={"schedulingPolicy": {"minAvailable": 2}})
    [(code, message)] = problems(gang, value)
    assert code == "ET2091"
    assert "without 'mnist-r1-worker-0'" in message
    assert codes("volcano", value) == []


def test_w1_what_cannot_be_seen_from_here_is_listed(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(job(queue="q", priorityClass="high")))
    version = ("--config", "kubernetes-version=1.37")
    command = ("check", tmp_path, "-n", "ml", *version, "--run", "a")
    for gang, needs in {
        "volcano": ("Volcano with schedulerName volcano", "Queue q, open", "PriorityClass high"),
        "kueue": ("LocalQueue q in the job's namespace", "pod integration", "quota for cpu"),
        "native": ("feature gate GenericWorkload", "API scheduling.k8s.io/v1beta1"),
        "kai": ("Queue q (scheduling.run.ai)",),
    }.items():
        done = at_a_shell(*command, "--config", f"gang={gang}")
        assert done.returncode == 0
        for need in needs:
            assert need in done.stderr, gang
    assert "needs in" not in at_a_shell(*command).stderr
    # Kueue adds up what the Pods ask for, whatever the job says.
    (tmp_path / "job.json").write_text(json.dumps(job(minResources={"example.com/nic": 1})))
    assert "quota for cpu" in at_a_shell(*command, "--config", "gang=kueue").stderr


EVERYTHING = {
    "queue": "root.q",
    "priorityClass": "high",
    "minResources": {"cpu": 1},
    "scheduleTimeoutSeconds": 60,
}
UNUSED = {
    "volcano": set(),
    "coscheduling": {"queue"},
    "kueue": {"minResources", "timeout"},
    "native": {"queue", "minResources", "timeout"},
    "yunikorn": {"minResources"},
    "kai": {"minResources", "timeout"},
    "koordinator": set(),
}


@pytest.mark.parametrize("gang", UNUSED)
def test_w2_field_that_a_scheduler_cannot_use_is_a_warning(gang: str) -> None:
    policy = copy.deepcopy(EVERYTHING)
    if gang != "yunikorn":
        policy["queue"] = "q"
    reported = problems(gang, job(**policy))
    assert {code for code, _ in reported} <= {"ET2092"}
    assert {message.partition(" has no effect")[0] for _, message in reported} == UNUSED[gang]


def test_w2_gang_settings_without_a_scheduler_are_one_warning() -> None:
    assert codes("none", job(**EVERYTHING)) == ["ET2041"]
    value = training_job()
    value["metadata"]["annotations"] = {"etcompile.dev/gang-queue": "q"}
    assert codes("none", value) == ["ET2041"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("min-member", "many"),
        ("timeout", "10m"),
        ("on-timeout", "panic"),
        ("min-resources", "cpu"),
        ("queue", "a b"),
    ],
)
def test_an_annotation_that_nobody_can_read_is_refused(name: str, text: str) -> None:
    value = training_job()
    worker(value)["template"]["spec"]["containers"][0]["resources"] = RESOURCES
    value["metadata"]["annotations"] = {f"etcompile.dev/gang-{name}": text}
    assert "ET2050" in codes("volcano", value)
