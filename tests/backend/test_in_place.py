"""Jobs that restart in place: what their Pods have besides, and what keeps them from it."""

import copy
import json
from typing import Any

import pytest
import yaml

import etcompile
from etcompile import Options, Settings
from etcompile.model import InPlace
from etcompile.model.protocol import is_config
from etcompile.stages import run as stage
from etcompile.stages.stored import read_patches, read_stored
from fidelity.every_job import JOBS, changed, compiled, pod_templates
from specs import by_name, errors, kubeflow_job, replicas, training_job, warnings

RESTART = "etcompile.dev/restart"
HASH = "etcompile.dev/spec-hash"
SCRIPT = "/etc/etcompile/scripts/supervise.sh"
LAUNCHERS = {"MPIJob", "TrainingJob"}
EXAMPLES = {
    name: {**job, "metadata": {"namespace": "ml", **job["metadata"]}}
    for name, job in JOBS.items()
    if job["kind"] != "ElasticJob"
    and name != "trainjob/initializer"
    and RESTART not in job["metadata"].get("annotations", {})
}
"""The jobs of the examples that may restart in place and do not."""


def launches(job: dict[str, Any]) -> bool:
    """Whether a job has a launcher, for which all others are there."""
    policy = job.get("runtime", {}).get("spec", {}).get("mlPolicy", {})
    return job["kind"] in LAUNCHERS or "mpi" in policy


def is_elastic(job: dict[str, Any]) -> bool:
    nnodes = "etcompile.dev/nnodes" in job["metadata"].get("annotations", {})
    return nnodes or "elasticPolicy" in job["spec"]


def annotated(job: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A copy of a job with annotations of ours; `_` stands for `-`."""
    made = copy.deepcopy(job)
    made["metadata"].setdefault("annotations", {}).update(
        {f"etcompile.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    )
    return made


def in_place(job: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A copy of a job that restarts in place, its launcher with a policy that allows it."""
    made = annotated(job, restart="in-place", **annotations)
    for key, role in (("mpiReplicaSpecs", "Launcher"), ("etReplicaSpecs", "launcher")):
        if role in made["spec"].get(key, {}):
            made["spec"][key][role].setdefault("restartPolicy", "OnFailure")
    return made


def role_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["etcompile.dev/role"])


def main_of(pod: dict[str, Any]) -> dict[str, Any]:
    """The container that has the run's own folder, or else the first."""
    found = pod["spec"]["containers"]
    return next((one for one in found if _mounts(one) & {"etcompile-run"}), found[0])


def _mounts(container: dict[str, Any]) -> set[str]:
    return {mount["name"] for mount in container.get("volumeMounts", ())}


def is_supervised(pod: dict[str, Any]) -> bool:
    return main_of(pod).get("command", [])[:2] == ["sh", SCRIPT]


def command(job: dict[str, Any], name: str) -> list[str]:
    """What the Pod of that name runs, or that of the Job."""
    objects = by_name(compiled(job))
    value = objects.get(("Pod", name)) or objects["Job", name]["spec"]["template"]
    return list(main_of(value)["command"])


def model(job: dict[str, Any]) -> Any:
    """The run policy of a job, as the watcher reads it."""
    [config] = [value for value in compiled(job).objects if is_config(value["metadata"])]
    return read_stored(yaml.safe_load(config["data"]["job.yaml"]))[0].run


# What is rendered -------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_roles_of_the_kind_are_supervised_and_no_others(example: str) -> None:
    job = EXAMPLES[example]
    objects = compiled(in_place(job)).objects
    supervised = {role_of(pod): is_supervised(pod) for pod in pod_templates(objects)}
    wanted = {role: role == "launcher" or not launches(job) for role in supervised}
    assert supervised == wanted


@pytest.mark.parametrize("example", EXAMPLES)
def test_such_a_pod_differs_from_a_plain_one_in_what_restarting_needs_only(example: str) -> None:
    before = pod_templates(compiled(_with_policy(EXAMPLES[example])).objects)
    after = pod_templates(compiled(in_place(EXAMPLES[example])).objects)
    for plain, ours in zip(map(_copy, before), map(_copy, after), strict=True):
        assert plain["metadata"]["annotations"].pop(HASH) != ours["metadata"]["annotations"].pop(
            HASH
        )
        if is_supervised(ours):
            _take_off(plain, ours)
        assert ours == plain


def _copy(value: dict[str, Any]) -> dict[str, Any]:
    """A Pod that shares nothing with another."""
    made: dict[str, Any] = json.loads(json.dumps(value))
    return made


def _with_policy(job: dict[str, Any]) -> dict[str, Any]:
    made = in_place(job)
    del made["metadata"]["annotations"][RESTART]
    return made


def _take_off(plain: dict[str, Any], ours: dict[str, Any]) -> None:
    """Takes what restarting needs off the Pod, and off both what it is instead of."""
    main, other = main_of(ours), None
    other = next(one for one in plain["spec"]["containers"] if one["name"] == main["name"])
    own = other.pop("command")
    wrapper = own[1].rpartition("/")[2]
    assert wrapper in ("run-once.sh", "until-done.sh")
    words = main.pop("command")
    assert words[words.index("--") + 1 :] == own[2:]
    assert main.pop("readinessProbe") == {
        "exec": {"command": ["sh", "-c", "[ -e /etc/etcompile/run/running ]"]},
        "periodSeconds": 1,
        "timeoutSeconds": 600,
        "failureThreshold": 1,
    }
    mount = {"name": "etcompile-run", "mountPath": "/etc/etcompile/run"}
    main["volumeMounts"].remove(mount)
    ours["spec"]["volumes"].remove({"name": "etcompile-run", "emptyDir": {}})
    scripts, plain_scripts = (_sources(pod) for pod in (ours, plain))
    assert _take_files(scripts, "downwardAPI") - _take_files(plain_scripts, "downwardAPI") == {
        ("command", "metadata.annotations['etcompile.dev/epoch']"),
        ("notice", "metadata.annotations['etcompile.dev/notice']"),
    }
    assert _take_files(scripts, "configMap") ^ _take_files(plain_scripts, "configMap") == {
        (wrapper, wrapper),
        ("supervise.sh", "supervise.sh"),
    }


def _sources(pod: dict[str, Any]) -> dict[str, Any]:
    volume = next(one for one in pod["spec"]["volumes"] if one["name"] == "etcompile-scripts")
    return {kind: one for source in volume["projected"]["sources"] for kind, one in source.items()}


def _take_files(sources: dict[str, Any], kind: str) -> set[tuple[str, str]]:
    items = sources[kind].pop("items")
    return {
        (item["path"], item["key"] if "key" in item else item["fieldRef"]["fieldPath"])
        for item in items
    }


@pytest.mark.parametrize("services", ["per-replica", "shared"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_replicas_find_each_other_before_they_are_ready(example: str, services: Any) -> None:
    settings = Settings(services=services)
    made = compiled(in_place(EXAMPLES[example]), settings=settings).objects
    found = [one["spec"] for one in made if one["kind"] == "Service"]
    assert all(spec["publishNotReadyAddresses"] for spec in found)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_script_is_in_the_config_map_once_and_those_it_replaces_are_not(example: str) -> None:
    made = compiled(in_place(EXAMPLES[example])).objects
    (data,) = (
        one["data"]
        for one in made
        if one["kind"] == "ConfigMap" and "job.yaml" in one.get("data", {})
    )
    assert "/etc/etcompile/run" in data["supervise.sh"]
    used = {
        word.rpartition("/")[2]
        for pod in pod_templates(made)
        for container in pod["spec"]["containers"]
        for word in container.get("command", ())[1:2]
    }
    for script in ("run-once.sh", "until-done.sh"):
        assert (script in data) == (script in used)


def test_the_numbers_of_the_annotations_are_in_the_script() -> None:
    job = in_place(training_job(), hold_timeout="77", stop_timeout="33")
    data = by_name(compiled(job))["ConfigMap", "mnist-config"]["data"]["supervise.sh"]
    assert "hold 77" in data
    assert "end 33\n" in data


def worker(policy: str | None = None, **main: Any) -> dict[str, Any]:
    made = replicas("TFJob", 2, **main)
    return {**made, **({"restartPolicy": policy} if policy else {})}


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("OnFailure", []),
        ("Always", []),
        ("Never", ["--permanent=all"]),
        ("ExitCode", ["--permanent=exit-code"]),
        (None, ["--permanent=all"]),
    ],
)
def test_the_supervisor_is_told_after_which_codes_nothing_restarts(policy, options) -> None:
    job = in_place(kubeflow_job("TFJob", {"Worker": worker(policy)}))
    assert command(job, "mnist-worker-0") == ["sh", SCRIPT, *options, "--", "train"]


def test_a_server_that_never_ends_is_told_when_the_run_is_done() -> None:
    job = in_place(kubeflow_job("TFJob", {"PS": worker("OnFailure"), "Worker": worker()}))
    assert command(job, "mnist-ps-0") == ["sh", SCRIPT, "--serves", "--", "train"]


def test_arguments_stay_where_they_are() -> None:
    job = in_place(kubeflow_job("JAXJob", {"Worker": replicas("JAXJob", 1, args=["--lr", "1"])}))
    pod = by_name(compiled(job))["Pod", "mnist-worker-0"]
    assert main_of(pod)["command"][-1] == "train"
    assert main_of(pod)["args"] == ["--lr", "1"]


def test_only_the_main_container_is_supervised() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 1})
    template = job["spec"]["jaxReplicaSpecs"]["Worker"]["template"]
    sidecar = {"name": "logs", "image": "logs:1", "readinessProbe": {"exec": {"command": ["ls"]}}}
    template["spec"]["containers"].append(sidecar)
    pod = by_name(compiled(in_place(job)))["Pod", "mnist-worker-0"]
    assert pod["spec"]["containers"][1] == sidecar


# What the watcher reads -------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_watcher_reads_which_roles_restart_and_whether_together(example: str) -> None:
    job = EXAMPLES[example]
    run = model(in_place(job))
    pods = pod_templates(compiled(in_place(job)).objects)
    each = launches(job) or is_elastic(job)
    assert run.in_place.mode == ("each" if each else "together")
    assert run.together == (not each)
    assert set(run.in_place.roles) == {role_of(pod) for pod in pods if is_supervised(pod)}


def test_the_watcher_reads_the_settings_with_their_defaults() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 2})
    assert model(job).in_place is None
    assert model(in_place(job)).in_place == InPlace("together", ("worker",), 60, 10, None)
    told = {"hold_timeout": "90", "stop_timeout": "5", "checkpoint_signal": "USR1"}
    assert model(in_place(job, **told)).in_place == InPlace("together", ("worker",), 90, 5, "USR1")


@pytest.mark.parametrize("overlays", [(), ("prod",)], ids=["plain", "overlaid"])
@pytest.mark.parametrize("profile", ["argocd", "flux", None])
@pytest.mark.parametrize("example", ["pytorchjob/in-place", "mpijob-v2beta1/in-place"])
def test_a_pod_that_the_watcher_makes_again_is_the_one_that_git_has(
    example: str, profile: Any, overlays: tuple[str, ...]
) -> None:
    settings = Settings(profiles=(profile,) if profile else ())
    result = compiled(JOBS[example], settings=settings, overlays=overlays)
    [config] = [value for value in result.objects if is_config(value["metadata"])]
    stored = yaml.safe_load(config["data"]["job.yaml"])
    job, read = read_stored(stored)
    edits = read_patches(stored)
    run = stage.Run(job, read)
    around = stage.situation_of_some(run, job, edits)
    for role in job.roles:
        made = stage.pods(run, role.name, role.members, edits)
        for value in stage.annotated(run, made, around):
            key = value["kind"], value["metadata"]["name"]
            assert value == by_name(result)[key]


def test_a_job_that_restarts_in_place_is_another_run() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 1})
    assert _run(job) != _run(in_place(job))


@pytest.mark.parametrize("setting", ["hold_timeout", "stop_timeout", "checkpoint_signal"])
def test_how_long_and_which_signal_makes_no_other_pods(setting) -> None:
    job = in_place(kubeflow_job("JAXJob", {"Worker": 1}))
    value = "USR1" if "signal" in setting else "45"
    assert _pods(annotated(job, **{setting: value})) == _pods(job)


def test_a_policy_that_is_in_the_command_makes_another_run() -> None:
    jobs = [in_place(kubeflow_job("TFJob", {"Worker": worker(p)})) for p in ("Never", "ExitCode")]
    # Without supervision both are Pods that the kubelet leaves as they are.
    plain = [_with_policy(job) for job in jobs]
    assert _pods(plain[0]) == _pods(plain[1])
    assert _run(jobs[0]) != _run(jobs[1])


def _pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in compiled(job).objects if one["kind"] == "Pod"]


def _run(job: dict[str, Any]) -> str:
    return str(_pods(job)[0]["metadata"]["annotations"][HASH])


# What is refused --------------------------------------------------------------------------------


def told(job: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    given = {key: value for key, value in job.items() if key != "runtime"}
    documents = [one for one in (given, job.get("runtime")) if one]
    result = etcompile.compile(documents, Options(namespace="ml"))
    return [(one.code, one.message, one.hint) for one in result.diagnostics]


def without_command(template: dict[str, Any]) -> None:
    for container in template["spec"]["containers"]:
        container.pop("command", None)


def with_probe(template: dict[str, Any]) -> None:
    for container in template["spec"]["containers"]:
        container["readinessProbe"] = {"tcpSocket": {"port": 80}}


def with_shared_processes(template: dict[str, Any]) -> None:
    template["spec"]["shareProcessNamespace"] = True


def with_host_processes(template: dict[str, Any]) -> None:
    template["spec"]["hostPID"] = True


IN_THE_WAY = {
    "has no command": without_command,
    "does not tell whether its command runs": with_probe,
    "shareProcessNamespace: true": with_shared_processes,
    "hostPID: true": with_host_processes,
}


@pytest.mark.parametrize("problem", IN_THE_WAY)
@pytest.mark.parametrize(
    "example",
    [
        *("jaxjob/all-reduce", "mpijob/elastic-horovod", "mpijob-v2beta1/pi"),
        *("mxjob/dist-mnist", "paddlejob/collective", "pytorchjob/all-reduce"),
        *("pytorchjob/elastic", "tfjob/multi-worker", "trainingjob/elastic-mnist"),
        *("trainjob/with-runtime", "xgboostjob/iris"),
    ],
)
def test_what_keeps_a_job_of_any_kind_from_restarting_is_an_error(example, problem) -> None:
    job = changed(in_place(JOBS[example]), IN_THE_WAY[problem])
    found = [message for code, message, hint in told(job) if code == "ET2137" and hint]
    restarting = pod_templates(compiled(in_place(JOBS[example])).objects)
    roles = {role_of(pod) for pod in restarting if is_supervised(pod)}
    assert len(found) == len(roles)
    assert all(problem in message for message in found)


@pytest.mark.parametrize("problem", IN_THE_WAY)
def test_none_of_it_is_in_the_way_of_other_jobs(problem) -> None:
    job = changed(kubeflow_job("JAXJob", {"Worker": 1}), IN_THE_WAY[problem])
    assert errors(job, namespace="ml") == []


@pytest.mark.parametrize("problem", ["has no command", "shareProcessNamespace: true"])
def test_none_of_it_is_in_the_way_of_workers_that_only_serve(problem) -> None:
    job = in_place(training_job())
    IN_THE_WAY[problem](job["spec"]["etReplicaSpecs"]["worker"]["template"])
    assert errors(job) == []


def test_an_error_stands_at_the_field_and_says_what_to_do(tmp_path) -> None:
    job = in_place(kubeflow_job("JAXJob", {"Worker": 1}))
    with_probe(job["spec"]["jaxReplicaSpecs"]["Worker"]["template"])
    text = yaml.safe_dump(job, sort_keys=False)
    (tmp_path / "job.yaml").write_text(text)
    (found,) = etcompile.compile([tmp_path / "job.yaml"]).diagnostics
    line = 1 + next(n for n, row in enumerate(text.splitlines()) if "readinessProbe" in row)
    assert (found.location.line, found.code) == (line, "ET2137")
    assert found.message == (
        "job 'mnist' cannot restart in place: the readinessProbe of container 'jax' of worker does"
        " not tell whether its command runs"
    )
    assert found.hint == "remove it: such a container is ready as long as its command runs"


@pytest.mark.parametrize("example", ["mpijob/elastic-horovod", "trainingjob/elastic-mnist"])
def test_a_launcher_that_nothing_restarts_is_refused(example) -> None:
    ((code, message, hint),) = told(annotated(JOBS[example], restart="in-place"))
    assert code == "ET2137"
    assert message.endswith(
        "restartPolicy Never of launcher says that its command is not run again"
    )
    assert hint == "write restartPolicy: OnFailure beside the template of launcher"


def test_replicas_that_restart_together_may_have_any_policy() -> None:
    assert told(in_place(kubeflow_job("TFJob", {"Worker": worker("Never")}))) == []


def test_dlrover_jobs_are_refused_with_the_reason() -> None:
    for example, reason in (
        ("elasticjob/all-reduce", "dlrover-run itself starts its processes again"),
        ("elasticjob/parameter-servers", "is followed by another Pod"),
    ):
        (found,) = told(annotated(JOBS[example], restart="in-place"))
        assert found[0] == "ET2137"
        assert reason in found[1]


def test_what_has_succeeded_by_then_is_no_part_of_a_job_that_restarts_together() -> None:
    (found,) = (one for one in told(in_place(JOBS["trainjob/initializer"])) if one[0] == "ET2137")
    assert "dataset-initializer and node would all run again together" in found[1]
    elastic = annotated(JOBS["trainjob/initializer"], nnodes="1:4")
    run = model(in_place(elastic))
    assert (run.in_place.mode, run.in_place.roles) == ("each", ("node",))


@pytest.mark.parametrize(
    ("job", "flag", "problem"),
    [
        (
            kubeflow_job("JAXJob", {"Worker": 2}),
            "false",
            "all of its replicas do so together, and",
        ),
        (JOBS["pytorchjob/elastic"], "true", "each replica would do so by itself, and"),
        (JOBS["trainjob/torch"], "false", "all of its replicas do so together, and"),
        (JOBS["trainjob/elastic"], "true", "each replica would do so by itself, and"),
        (JOBS["trainjob/mpi"], "true", "only the launcher would do so by itself, and"),
        (JOBS["mpijob/elastic-horovod"], "true", "only the launcher would do so by itself, and"),
    ],
)
def test_two_annotations_that_contradict_each_other_are_refused(job, flag, problem) -> None:
    ((code, message, _),) = told(in_place(job, restart_together=flag))
    assert code == "ET2137"
    assert problem in message
    other = {"true": "false", "false": "true"}[flag]
    assert told(in_place(job, restart_together=other)) == []


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("restart", "yes", None),
        ("restart", "", None),
        ("hold-timeout", "soon", None),
        ("hold-timeout", "0", None),
        ("stop-timeout", "10s", None),
        ("checkpoint-signal", "TERM", None),
        ("checkpoint-signal", "KILL", None),
        ("checkpoint-signal", "10", None),
        ("checkpoint-signal", "SIGUSR1", "write USR1"),
        ("checkpoint-signal", "usr2", "write USR2"),
        ("stack-signal", "SIGUSR2", "write USR2"),
        ("stack-signal", "QUIT", None),
        ("stack-signal", "USR1", None),
    ],
)
@pytest.mark.parametrize("example", ["jaxjob/all-reduce", "trainingjob/kubexec"])
def test_a_value_that_there_is_not_is_refused(example, name, value, hint) -> None:
    job = in_place(JOBS[example])
    job["metadata"]["annotations"] |= {
        "etcompile.dev/checkpoint-signal": "USR1",
        "etcompile.dev/stuck-after": "600",
        f"etcompile.dev/{name}": value,
    }
    ((code, message, found),) = told(job)
    assert (code, found) == ("ET2050", hint)
    assert f"etcompile.dev/{name} must be" in message


def test_stacks_are_asked_for_only_of_a_run_that_may_count_as_one_that_hangs() -> None:
    job = in_place(JOBS["jaxjob/all-reduce"])
    job["metadata"]["annotations"]["etcompile.dev/stack-signal"] = "USR1"
    ((code, message, hint),) = told(job)
    assert code == "ET2041"
    assert "etcompile.dev/stack-signal has no effect: nobody asks for stacks" in message
    assert "etcompile.dev/stuck-after" in hint
    job["metadata"]["annotations"]["etcompile.dev/stuck-after"] = "600"
    assert told(job) == []


@pytest.mark.parametrize(
    "name", ["hold_timeout", "stop_timeout", "checkpoint_signal", "stack_signal"]
)
@pytest.mark.parametrize(
    "example", ["jaxjob/all-reduce", "elasticjob/all-reduce", "mpijob-v2beta1/pi"]
)
def test_a_setting_of_a_job_that_makes_new_pods_is_told_of(example, name) -> None:
    value = "USR1" if "signal" in name else "30"
    ((code, message, hint),) = told(annotated(JOBS[example], **{name: value}))
    assert code == "ET2041"
    assert message.endswith("has no effect: the job does not restart in place")
    assert hint == "add etcompile.dev/restart: in-place, or remove it"


@pytest.mark.parametrize("name", ["etcompile.dev/epoch", "etcompile.dev/notice"])
def test_what_the_watcher_says_is_in_no_template(name) -> None:
    job = kubeflow_job("JAXJob", {"Worker": 1})
    template = job["spec"]["jaxReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": {name: "7 run 0 new", "mine": "yes"}}
    assert warnings(in_place(job), namespace="ml") == ["ET2042"]
    pod = by_name(compiled(in_place(job)))["Pod", "mnist-worker-0"]
    assert pod["metadata"]["annotations"].keys() == {"mine", HASH}


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"etcompile.dev/epoch": "7 run 0 new"}}},
        {"spec": {"containers": [{"name": "jax", "readinessProbe": {"periodSeconds": 9}}]}},
        {"spec": {"shareProcessNamespace": True}},
    ],
    ids=["annotation", "probe", "processes"],
)
def test_an_overlay_does_not_change_it_in_compiled_pods(change) -> None:
    patch = {"target": {"kind": "Pod"}, "patch": change}
    overlay = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "Overlay", "patches": [patch]}
    job = in_place(kubeflow_job("JAXJob", {"Worker": 1}))
    assert errors(job, namespace="ml", overlays=(overlay,)) == ["ET6006"]


def test_the_overlay_asks_for_it() -> None:
    for example, job in EXAMPLES.items():
        if job["kind"] == "TrainJob":
            continue  # one that fetches its data first cannot
        made = compiled(job, overlays=("resilient",)).objects
        assert any(map(is_supervised, pod_templates(made))), example
