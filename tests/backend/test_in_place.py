"""Jobs that restart in place: what their Pods have besides, and what keeps them from it."""

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from etcompile import Options, Settings
from etcompile.compiler.stored import read_stored
from etcompile.model import InPlace
from etcompile.model.protocol import is_config
from fidelity.every_job import JOBS, changed, compiled, pod_templates
from specs import by_name, errors, kubeflow_job, patch, replicas, training_job, warnings

ROOT = Path(__file__).parents[2]
RESTART = "etcompile.dev/restart"
TOGETHER = "etcompile.dev/restart-together"
HASH = "etcompile.dev/spec-hash"
SCRIPTS = "/etc/etcompile/scripts"
SHIM = ["sh", f"{SCRIPTS}/supervise.sh"]
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
    copied = copy.deepcopy(job)
    copied["metadata"].setdefault("annotations", {}).update(
        {f"etcompile.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    )
    return copied


def in_place(job: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A copy of a job that restarts in place, its launcher with a policy that allows it."""
    supervised = annotated(job, restart="in-place", **annotations)
    for key, role in (("mpiReplicaSpecs", "Launcher"), ("etReplicaSpecs", "launcher")):
        if role in supervised["spec"].get(key, {}):
            supervised["spec"][key][role].setdefault("restartPolicy", "OnFailure")
    return supervised


def role_of(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["etcompile.dev/role"])


def main_of(pod: dict[str, Any]) -> dict[str, Any]:
    """The container that has the run's own folder, or else the first."""
    containers = pod["spec"]["containers"]
    return next((one for one in containers if _mounts(one) & {"etcompile-run"}), containers[0])


def _mounts(container: dict[str, Any]) -> set[str]:
    return {mount["name"] for mount in container.get("volumeMounts", ())}


def is_supervised(pod: dict[str, Any]) -> bool:
    words = main_of(pod).get("command", [])
    return words[:2] == SHIM or words[1:3] == ["-SE", f"{SCRIPTS}/supervise.py"]


def command(job: dict[str, Any], name: str) -> list[str]:
    """What the Pod of that name runs, or that of the Job."""
    objects = by_name(compiled(job))
    value = objects.get(("Pod", name)) or objects["Job", name]["spec"]["template"]
    return list(main_of(value)["command"])


def options(job: dict[str, Any], name: str) -> list[str]:
    """What the supervisor of a Pod is told besides its port and `--stop`."""
    words = command(job, name)
    start = next(at for at, word in enumerate(words) if word.startswith("--"))
    flags = words[start : words.index("--")]
    return [word for word in flags if not word.startswith(("--port=", "--stop="))]


def model(job: dict[str, Any]) -> Any:
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
        first, second = (one["metadata"]["annotations"].pop(HASH) for one in (plain, ours))
        assert first != second
        if is_supervised(ours):
            _take_off(plain, ours)
        assert ours == plain


def _copy(value: dict[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(value))
    return copied


def _with_policy(job: dict[str, Any]) -> dict[str, Any]:
    changed = in_place(job)
    del changed["metadata"]["annotations"][RESTART]
    # With it, Pods have another restartPolicy.
    changed["metadata"]["annotations"].pop(TOGETHER, None)
    return changed


def _take_off(plain: dict[str, Any], ours: dict[str, Any]) -> None:
    """Takes what restarting needs off the Pod, and off both what it is instead of."""
    main, other = main_of(ours), None
    other = next(one for one in plain["spec"]["containers"] if one["name"] == main["name"])
    command = other.pop("command")
    gates = ("wait-for-workers.sh", "peers") if command[1].endswith("/wait-for-workers.sh") else ()
    command = command[2:] if gates else command  # supervisors wait for each other without it
    wrapper = command[1].rpartition("/")[2]
    assert wrapper in ("run-once.sh", "until-done.sh")
    words = main.pop("command")
    assert words[words.index("--") + 1 :] == command[2:]
    probe = {"httpGet": {"path": "/ready", "port": 29999}}
    probe |= {"periodSeconds": 2, "failureThreshold": 1}
    probe |= {"initialDelaySeconds": 1, "timeoutSeconds": 600}
    if "readinessProbe" not in other:
        assert main.pop("readinessProbe") == probe
    assert main["ports"].pop() == {"name": "supervisor", "containerPort": 29999}
    if not main["ports"]:
        del main["ports"]
    mount = {"name": "etcompile-run", "mountPath": "/etc/etcompile/run"}
    main["volumeMounts"].remove(mount)
    ours["spec"]["volumes"].remove({"name": "etcompile-run", "emptyDir": {}})
    scripts, plain_scripts = (_sources(pod) for pod in (ours, plain))
    assert _take_files(scripts, "downwardAPI") - _take_files(plain_scripts, "downwardAPI") == {
        ("epoch", "metadata.annotations['etcompile.dev/epoch']"),
        ("notice", "metadata.annotations['etcompile.dev/notice']"),
        ("uid", "metadata.uid"),
        ("role", "metadata.labels['etcompile.dev/role']"),
        ("index", "metadata.labels['etcompile.dev/index']"),
    }
    shim = {("supervise.sh", "supervise.sh")} if words[:2] == SHIM else set()
    assert _take_files(scripts, "configMap") ^ _take_files(plain_scripts, "configMap") == {
        (wrapper, wrapper),
        ("supervise.py", "supervise.py"),
        *((file, file) for file in gates),
        *shim,
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
    objects = compiled(in_place(EXAMPLES[example]), settings=settings).objects
    rendered_services = [one["spec"] for one in objects if one["kind"] == "Service"]
    assert all(spec["publishNotReadyAddresses"] for spec in rendered_services)


@pytest.mark.parametrize("example", EXAMPLES)
def test_config_map_contains_the_supervisor_and_only_the_scripts_in_use(example: str) -> None:
    objects = compiled(in_place(EXAMPLES[example])).objects
    [data] = [one["data"] for one in objects if is_config(one["metadata"])]
    assert data["supervise.py"] == (ROOT / "templates" / "supervise.py").read_text("utf-8")
    used = {
        word.rpartition("/")[2]
        for pod in pod_templates(objects)
        for container in pod["spec"]["containers"]
        for word in container.get("command", ())[1:2]
    }
    for script in ("run-once.sh", "until-done.sh", "supervise.sh"):
        assert (script in data) == (script in used)


@pytest.mark.parametrize("services", ["per-replica", "shared"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_gang_is_all_that_restart_together_and_finds_its_coordinator(
    example: str, services: Any
) -> None:
    settings = Settings(services=services)
    objects = compiled(in_place(EXAMPLES[example]), settings=settings).objects
    pods = [pod for pod in pod_templates(objects) if is_supervised(pod)]
    flags = {word for pod in pods for word in main_of(pod)["command"] if word.startswith("--")}
    values = {name: value for name, _, value in (word.partition("=") for word in flags)}
    if launches(EXAMPLES[example]) or is_elastic(EXAMPLES[example]):
        assert values.keys().isdisjoint({"--gang", "--coordinator", "--first"})
        return
    assert "--gate" not in values
    assert len([word for word in flags if word.startswith(("--gang", "--first", "--coor"))]) == 3
    counts = Counter(map(role_of, pods))
    assert values["--gang"] == ",".join(f"{role}:{count}" for role, count in counts.items())
    names = {f"{role_of(pod)}-{index(pod)}": pod for pod in pods}
    first = names[values["--first"]]
    assert not any(word == "--serves" for word in main_of(first)["command"])
    assert index(first) == "0"
    _resolves(values["--coordinator"], first, objects)


def index(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["etcompile.dev/index"])


def _resolves(name: str, pod: dict[str, Any], objects: list[dict[str, Any]]) -> None:
    """Fails unless Pods of the same namespace reach a Pod by this name before it is ready."""
    services = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Service"}
    host, _, service = name.partition(".")
    if not service and host in services:
        service = host
    else:
        assert pod["spec"]["hostname"] == host
        service = service or pod["spec"]["subdomain"]
        assert pod["spec"]["subdomain"] == service
        searched = pod["spec"].get("dnsConfig", {}).get("searches", ())
        domain = f"{service}.{pod['metadata']['namespace']}.svc.cluster.local"
        assert "." in name or domain in searched
    spec = services[service]["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["selector"].items() <= pod["metadata"]["labels"].items()


def test_the_options_of_a_gang() -> None:
    job = in_place(JOBS["pytorchjob/all-reduce"], supervisor_port="7777", stop_timeout="33")
    name = job["metadata"]["name"]
    job["spec"]["runPolicy"] = {"backoffLimit": 4}
    expected = [
        f"--coordinator={name}-master-0",
        "--first=master-0",
        "--port=7777",
        "--stop=33",
        "--backoff-limit=4",
    ]
    for pod in ("master-0", "worker-0"):
        assert [word for word in command(job, f"{name}-{pod}") if word in expected] == expected
    pod = by_name(compiled(job))["Pod", f"{name}-master-0"]
    assert main_of(pod)["ports"][-1] == {"name": "supervisor", "containerPort": 7777}
    assert main_of(pod)["readinessProbe"]["httpGet"]["port"] == 7777


def test_who_only_serves_does_not_coordinate() -> None:
    job = in_place(kubeflow_job("TFJob", {"PS": worker("OnFailure"), "Worker": worker()}))
    *gang, serves = options(job, "mnist-ps-1")
    assert gang == ["--gang=ps:2,worker:2", "--coordinator=mnist-worker-0", "--first=worker-0"]
    assert serves == "--serves"


def test_a_launcher_looks_at_its_workers_before_it_runs_again() -> None:
    gate = f"--gate={SCRIPTS}/wait-for-workers.sh"
    assert options(in_place(training_job()), "mnist-launcher") == ["--backoff-limit=6", gate]


@pytest.mark.parametrize(
    ("example", "role", "limit"),
    [
        ("trainjob/torch", "node-0-0", "--backoff-limit=6"),  # of the Job, of its one attempt
        ("mpijob-v2beta1/pi", "launcher", "--backoff-limit=6"),
    ],
)
def test_the_limit_is_that_of_the_job_that_the_kind_makes(example, role, limit) -> None:
    job = in_place(JOBS[example])
    job["spec"].pop("runPolicy", None)
    assert limit in options(job, f"{job['metadata']['name']}-{role}")


def test_a_job_set_that_restarts_allows_the_failures_of_each_attempt() -> None:
    job = in_place(JOBS["trainjob/with-runtime"])
    job_set = job["runtime"]["spec"]["template"]["spec"]
    job_set["failurePolicy"] = {"maxRestarts": 2}
    [trainer] = job_set["replicatedJobs"]
    trainer["template"]["spec"]["backoffLimit"] = 3
    [pod, *_] = pod_templates(compiled(job).objects)
    assert "--backoff-limit=11" in main_of(pod)["command"]


def test_a_command_without_a_limit_has_none() -> None:
    job = in_place(kubeflow_job("JAXJob", {"Worker": 1}))
    assert not [word for word in options(job, "mnist-worker-0") if "limit" in word]


@pytest.mark.parametrize(
    "program", ["python3", "python3.12", "/usr/bin/python3", "/opt/venv/bin/python3.8"]
)
def test_an_image_of_python_alone_needs_no_shell(program) -> None:
    words = [program, "-m", "train"]
    job = in_place(kubeflow_job("JAXJob", {"Worker": replicas("JAXJob", 2, command=words)}))
    argv = command(job, "mnist-worker-0")
    assert argv[:3] == [program, "-SE", f"{SCRIPTS}/supervise.py"]
    assert argv[argv.index("--") + 1 :] == words
    objects = by_name(compiled(job))
    assert "supervise.sh" not in objects["ConfigMap", "mnist-etcompile"]["data"]
    assert "sh" not in json.dumps(objects["Pod", "mnist-worker-0"]["spec"]).split('"')


@pytest.mark.parametrize(
    "program", ["python", "python2", "python3-config", "$(PYTHON)", "torchrun"]
)
def test_unknown_commands_search_for_a_python_first(program) -> None:
    job = kubeflow_job("JAXJob", {"Worker": replicas("JAXJob", 1, command=[program])})
    assert command(in_place(job), "mnist-worker-0")[:2] == SHIM


def test_readiness_probe_of_the_user_is_preserved() -> None:
    probe = {"httpGet": {"port": 80}}
    job = in_place(kubeflow_job("JAXJob", {"Worker": replicas("JAXJob", 1, readinessProbe=probe)}))
    assert main_of(by_name(compiled(job))["Pod", "mnist-worker-0"])["readinessProbe"] == probe


def worker(policy: str | None = None, **main: Any) -> dict[str, Any]:
    role = replicas("TFJob", 2, **main)
    return {**role, **({"restartPolicy": policy} if policy else {})}


@pytest.mark.parametrize(
    ("policy", "permanent"),
    [
        ("OnFailure", []),
        ("Always", []),
        ("Never", ["--permanent=all"]),
        ("ExitCode", ["--permanent=exit-code"]),
        (None, ["--permanent=all"]),
    ],
)
def test_supervisor_receives_the_permanent_exit_codes(policy, permanent) -> None:
    job = in_place(kubeflow_job("TFJob", {"Worker": worker(policy)}))
    assert options(job, "mnist-worker-0")[3:] == permanent
    assert command(job, "mnist-worker-0")[-2:] == ["--", "train"]


def test_only_the_main_container_is_supervised() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 1})
    template = job["spec"]["jaxReplicaSpecs"]["Worker"]["template"]
    sidecar = {"name": "logs", "image": "logs:1", "readinessProbe": {"exec": {"command": ["ls"]}}}
    template["spec"]["containers"].append(sidecar)
    pod = by_name(compiled(in_place(job)))["Pod", "mnist-worker-0"]
    last_lines = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    assert pod["spec"]["containers"][1] == sidecar | last_lines


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
    assert model(in_place(job)).in_place == InPlace("together", ("worker",), 10, None)
    settings = {"supervisor_port": "2000", "stop_timeout": "5", "checkpoint_signal": "USR1"}
    expected = InPlace("together", ("worker",), 5, "USR1", port=2000)
    assert model(in_place(job, **settings)).in_place == expected


def test_what_is_in_the_command_makes_another_run() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 1})
    limited = {**job, "spec": {**job["spec"], "runPolicy": {"backoffLimit": 3}}}
    others = ({"supervisor_port": "4500"}, {"stop_timeout": "45"}, {"checkpoint_signal": "USR1"})
    changed_jobs = [in_place(job, **other) for other in others]
    runs = {_run(one) for one in (job, in_place(job), in_place(limited), *changed_jobs)}
    assert len(runs) == 6
    assert _run(job) == _run(limited)


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


def problems(job: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    plain_job = {key: value for key, value in job.items() if key != "runtime"}
    documents = [one for one in (plain_job, job.get("runtime")) if one]
    result = etcompile.compile(documents, Options(namespace="ml"))
    return [(one.code, one.message, one.hint) for one in result.diagnostics]


def without_command(template: dict[str, Any]) -> None:
    for container in template["spec"]["containers"]:
        container.pop("command", None)


def with_port(template: dict[str, Any]) -> None:
    for container in template["spec"]["containers"][:1]:
        container["ports"] = [{"containerPort": 29999}]


def with_shared_processes(template: dict[str, Any]) -> None:
    template["spec"]["shareProcessNamespace"] = True


def with_host_processes(template: dict[str, Any]) -> None:
    template["spec"]["hostPID"] = True


IN_THE_WAY = {
    "has no command": without_command,
    "listens on port 29999, and so does container": with_port,
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
    messages = [message for code, message, hint in problems(job) if code == "ET2137" and hint]
    restarting = pod_templates(compiled(in_place(JOBS[example])).objects)
    roles = {role_of(pod) for pod in restarting if is_supervised(pod)}
    assert len(messages) == len(roles)
    assert all(problem in message for message in messages)


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
    with_port(job["spec"]["jaxReplicaSpecs"]["Worker"]["template"])
    text = yaml.safe_dump(job, sort_keys=False)
    (tmp_path / "job.yaml").write_text(text)
    (diagnostic,) = etcompile.compile([tmp_path / "job.yaml"]).diagnostics
    line = 1 + next(n for n, row in enumerate(text.splitlines()) if "containerPort" in row)
    assert (diagnostic.location.line, diagnostic.code) == (line, "ET2137")
    assert diagnostic.message == (
        "job 'mnist' cannot restart in place: the supervisor of worker listens on port 29999, and"
        " so does container 'jax'"
    )
    assert diagnostic.hint == "write another port into the annotation etcompile.dev/supervisor-port"


def problem_of(job: dict[str, Any], **annotations: str) -> str:
    ((code, message, hint),) = problems(in_place(job, **annotations))
    assert code == "ET2137"
    assert hint
    return message.rpartition(" in place: ")[2]


def test_the_port_of_the_supervisors_is_that_of_no_container() -> None:
    job = kubeflow_job("PyTorchJob", {"Master": 1})
    main = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    main["ports"] = [{"name": "pytorchjob-port", "containerPort": 4000}]
    assert problems(in_place(job, supervisor_port="23456")) == []
    assert "and so does container 'pytorch'" in problem_of(job, supervisor_port="4000")
    main["ports"].append({"containerPort": 5000, "protocol": "UDP"})
    assert problems(in_place(job, supervisor_port="5000")) == []


def test_a_job_without_replicas_is_refused_for_that() -> None:
    job = kubeflow_job("JAXJob", {"Worker": 0})
    assert errors(in_place(job), namespace="ml") == errors(job, namespace="ml") != []


@pytest.mark.parametrize("example", ["mpijob/elastic-horovod", "trainingjob/elastic-mnist"])
def test_a_launcher_that_nothing_restarts_is_refused(example) -> None:
    ((code, message, hint),) = problems(annotated(JOBS[example], restart="in-place"))
    assert code == "ET2137"
    assert message.endswith(
        "restartPolicy Never of launcher says that its command is not run again"
    )
    assert hint == "write restartPolicy: OnFailure beside the template of launcher"


def test_replicas_that_restart_together_may_have_any_policy() -> None:
    assert problems(in_place(kubeflow_job("TFJob", {"Worker": worker("Never")}))) == []


def test_dlrover_jobs_are_refused_with_the_reason() -> None:
    for example, reason in (
        ("elasticjob/all-reduce", "dlrover-run itself starts its processes again"),
        ("elasticjob/parameter-servers", "is followed by another Pod"),
    ):
        (problem,) = problems(annotated(JOBS[example], restart="in-place"))
        assert problem[0] == "ET2137"
        assert reason in problem[1]


def test_what_has_succeeded_by_then_is_no_part_of_a_job_that_restarts_together() -> None:
    reported = problems(in_place(JOBS["trainjob/initializer"]))
    [problem] = [one for one in reported if one[0] == "ET2137"]
    assert "dataset-initializer and node would all run again together" in problem[1]
    elastic = annotated(JOBS["trainjob/initializer"], nnodes="1:4")
    run = model(in_place(elastic))
    assert (run.in_place.mode, run.in_place.roles) == ("each", ("node",))


@pytest.mark.parametrize(
    ("job", "flag", "problem"),
    [
        (kubeflow_job("JAXJob", {"Worker": 2}), "false", "all of its replicas do so together"),
        (JOBS["pytorchjob/elastic"], "true", "each replica would do so by itself"),
        (JOBS["trainjob/torch"], "false", "all of its replicas do so together"),
        (JOBS["trainjob/elastic"], "true", "each replica would do so by itself"),
        (JOBS["trainjob/mpi"], "true", "only the launcher would do so by itself"),
        (JOBS["mpijob/elastic-horovod"], "true", "only the launcher would do so by itself"),
    ],
)
def test_two_annotations_that_contradict_each_other_are_refused(job, flag, problem) -> None:
    ((code, message, _),) = problems(in_place(job, restart_together=flag))
    assert code == "ET2137"
    assert f"{problem}, and" in message
    other = {"true": "false", "false": "true"}[flag]
    assert problems(in_place(job, restart_together=other)) == []


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("restart", "yes", None),
        ("restart", "", None),
        ("supervisor-port", "http", None),
        ("supervisor-port", "1023", None),
        ("supervisor-port", "65536", None),
        ("stop-timeout", "10s", None),
        ("checkpoint-signal", "TERM", None),
        ("checkpoint-signal", "KILL", None),
        ("checkpoint-signal", "10", None),
        ("checkpoint-signal", "SIGUSR1", "write USR1"),
        ("checkpoint-signal", "usr2", "write USR2"),
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
    ((code, message, offered),) = problems(job)
    assert (code, offered) == ("ET2050", hint)
    assert f"etcompile.dev/{name} must be" in message


@pytest.mark.parametrize("name", ["supervisor_port", "stop_timeout", "checkpoint_signal"])
@pytest.mark.parametrize(
    "example", ["jaxjob/all-reduce", "elasticjob/all-reduce", "mpijob-v2beta1/pi"]
)
def test_setting_without_restart_in_place_is_reported_as_no_effect(example, name) -> None:
    value = "USR1" if "signal" in name else "3000"
    ((code, message, hint),) = problems(annotated(JOBS[example], **{name: value}))
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
        {"spec": {"shareProcessNamespace": True}},
    ],
    ids=["annotation", "processes"],
)
def test_an_overlay_does_not_change_it_in_compiled_pods(change) -> None:
    job = in_place(kubeflow_job("JAXJob", {"Worker": 1}))
    assert errors(job, namespace="ml", overlays=(patch(change, kind="Pod"),)) == ["ET6006"]


def test_the_overlay_asks_for_it() -> None:
    for example, job in EXAMPLES.items():
        if job["kind"] == "TrainJob":
            continue  # one that fetches its data first cannot
        objects = compiled(job, overlays=("resilient",)).objects
        assert any(map(is_supervised, pod_templates(objects))), example
