"""TrainJobs whose number of nodes may change: the annotation nnodes, and nodes without numbers.

Trainer's numNodes is immutable and torchrun is told one number (reference/trainer-v2.md 11, T12).
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import etcompile
from defects.test_trainer import (
    errors,
    job,
    main,
    mpi,
    named,
    objects,
    of_parts,
    part,
    pods,
    replicated,
    runtime,
    variables,
    with_data,
)
from specs import scale_in, scale_out

NNODES = "etcompile.dev/nnodes"


def elastic(nodes: str = "2:4", **spec: Any) -> dict[str, Any]:
    document = job(**spec)
    document["metadata"]["annotations"] = {NNODES: nodes}
    return document


def more(count: int) -> dict[str, Any]:
    return scale_out("scaleout", count, job="t", of="TrainJob", namespace="ml")


def less(wanted: int | list[str]) -> dict[str, Any]:
    return scale_in("scalein", wanted, job="t", of="TrainJob", namespace="ml")


def names(*inputs: dict[str, Any]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods(*inputs)]


def test_torchrun_receives_the_node_range_and_the_first_node_as_endpoint() -> None:
    first, second = pods(runtime(), elastic())
    for pod in (first, second):
        env = variables(pod)
        assert env["PET_NNODES"] == "2:4"
        assert env["PET_RDZV_BACKEND"] == "c10d"
        assert env["PET_RDZV_ENDPOINT"] == "t-node-0-0.t:29500"
    # torchrun finds its own name, without the Service's, in no such endpoint.
    assert variables(first)["PET_RDZV_CONF"] == "is_host=1"
    assert "PET_RDZV_CONF" not in variables(second)


def test_nodes_without_the_annotation_get_the_variables_of_trainer() -> None:
    env = variables(pods(runtime(), job())[0])
    assert env["PET_NNODES"] == "2"
    assert not [name for name in env if "RDZV" in name]


def test_no_pod_changes_when_others_come_or_go() -> None:
    by_number = {count: pods(runtime(), elastic(trainer={"numNodes": count})) for count in (2, 4)}
    assert by_number[4][:2] == by_number[2]
    grown = pods(runtime(), elastic(), more(2))
    assert grown[:2] == by_number[2]
    assert [pod["metadata"]["name"] for pod in grown] == [f"t-node-0-{n}" for n in range(4)]


def test_any_node_but_the_first_may_go() -> None:
    train_job = elastic(trainer={"numNodes": 4})
    gone = less(["t-node-0-1"])
    assert names(runtime(), train_job, gone) == ["t-node-0-0", "t-node-0-2", "t-node-0-3"]
    gone = less(["t-node-0-0"])
    diagnostics = etcompile.compile([runtime(), train_job, gone]).diagnostics
    assert [one.code for one in diagnostics] == ["ET3012"]


@pytest.mark.parametrize(
    ("trainer", "code", "message"),
    [
        ({"numNodes": 5}, "ET2003", f"spec.trainer.numNodes 5 is above the maximum of {NNODES} 4"),
        ({"numNodes": 1}, "ET2004", f"spec.trainer.numNodes 1 is below the minimum of {NNODES} 2"),
    ],
)
def test_a_number_out_of_the_range_is_refused_where_it_stands(
    trainer: Any, code: str, message: str, tmp_path: Any
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all([runtime(), elastic(trainer=trainer)]))
    [diagnostic] = etcompile.compile([path]).diagnostics
    assert (diagnostic.code, diagnostic.message) == (code, message)
    assert diagnostic.location is not None
    line = path.read_text().splitlines()[(diagnostic.location.line or 0) - 1]
    assert line.strip() == f"numNodes: {trainer['numNodes']}"


def test_a_number_of_the_runtime_counts_too() -> None:
    assert [code for code, _ in errors(runtime(), elastic("3:4"))] == ["ET2004"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [*((nodes, "ET2050") for nodes in ("many", "0:2", "2-4", "")), ("4:2", "ET2005")],
)
def test_a_range_that_is_none_is_refused(nodes: str, expected: str) -> None:
    assert [code for code, _ in errors(runtime(), elastic(nodes))] == [expected]


@pytest.mark.parametrize("policy", ["jax", "xgboost"])
def test_policy_with_a_fixed_node_count_cannot_be_elastic(policy: str) -> None:
    custom = runtime()
    custom["spec"]["mlPolicy"] = {policy: {}, "numNodes": 2}
    assert errors(custom, elastic()) == {("ET2139", f"annotation {NNODES}")}


def test_tune_run_is_completed_by_a_number_of_nodes() -> None:
    shipped = {"name": "torchtune-llama3.2-1b"}
    train_job = elastic("1:2", runtimeRef=shipped, trainer={"command": ["tune", "run"]})
    assert ("ET2139", f"annotation {NNODES}") in errors(train_job)


@pytest.mark.parametrize(
    "flags",
    [
        *("--nnodes=2", "--nnodes 1:4", "--standalone", "--rdzv-backend=static"),
        *("--rdzv_endpoint other:29400", "--rdzv-conf=timeout=5"),
    ],
)
def test_flags_that_count_before_the_annotation_are_refused(flags: str) -> None:
    command = ["torchrun", *flags.split(), "t.py"]
    [(code, where)] = errors(runtime(), elastic(trainer={"command": command}))
    assert code == "ET2139"
    assert where.endswith("of torchrun")


def test_flags_that_say_the_same_or_belong_to_the_script_are_left() -> None:
    for words in ("--nnodes=$PET_NNODES t.py", "--nnodes=2:4 t.py", "t.py --nnodes=2"):
        command = ["torchrun", *words.split()]
        assert len(pods(runtime(), elastic(trainer={"command": command}))) == 2


def test_external_rendezvous_is_preserved_and_allows_removing_node_0() -> None:
    custom = runtime()
    main(custom)["env"] = [
        {"name": "PET_RDZV_BACKEND", "value": "etcd-v2"},
        {"name": "PET_RDZV_ENDPOINT", "value": "etcd.infra:2379"},
    ]
    three = elastic(trainer={"numNodes": 3})
    env = variables(pods(custom, three)[0])
    assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"]) == ("etcd-v2", "etcd.infra:2379")
    assert "PET_RDZV_CONF" not in env
    gone = less(["t-node-0-0"])
    assert names(custom, three, gone) == ["t-node-0-1", "t-node-0-2"]


@pytest.mark.parametrize("backend", ["etcd", "static"])
def test_a_rendezvous_that_nobody_serves_is_refused(backend: str) -> None:
    env = [{"name": "PET_RDZV_BACKEND", "value": backend}]
    assert errors(runtime(), elastic(trainer={"env": env})) == {
        ("ET2139", f"variable PET_RDZV_BACKEND {backend}")
    }


def test_rendezvous_settings_of_the_user_are_preserved() -> None:
    env = [{"name": "PET_RDZV_CONF", "value": "join_timeout=300"}]
    first, second = pods(runtime(), elastic(trainer={"env": env}))
    assert variables(first)["PET_RDZV_CONF"] == "join_timeout=300,is_host=1"
    assert variables(second)["PET_RDZV_CONF"] == "join_timeout=300"


def test_a_node_that_loses_another_one_begins_again_as_often_as_the_job_may_fail() -> None:
    custom = runtime()
    assert variables(pods(custom, elastic())[0])["PET_MAX_RESTARTS"] == "6"
    replicated(custom)["template"]["spec"]["backoffLimit"] = 3
    assert variables(pods(custom, elastic())[0])["PET_MAX_RESTARTS"] == "3"
    limited = elastic(trainer={"env": [{"name": "PET_MAX_RESTARTS", "value": "100"}]})
    assert variables(pods(custom, limited)[0])["PET_MAX_RESTARTS"] == "100"
    assert "PET_MAX_RESTARTS" not in variables(pods(custom, job())[0])


def test_torchrun_parses_the_variables_of_the_nodes(
    require: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    present = importlib.util.find_spec("torch") is not None
    require("torch", present=present, why="torch is not installed; it is 200 MB and more")
    run = importlib.import_module("torch.distributed.run")
    for name, text in variables(pods(runtime(), elastic())[0]).items():
        monkeypatch.setenv(name, "0" if text is None else text)
    config, _, _ = run.config_from_args(run.parse_args(["train.py"]))
    assert (config.min_nodes, config.max_nodes, config.max_restarts) == (2, 4, 6)
    assert (config.rdzv_backend, config.rdzv_endpoint) == ("c10d", "t-node-0-0.t:29500")
    assert config.rdzv_configs["is_host"] == "1"


def test_settings_that_nobody_knows_before_the_pod_starts_are_refused() -> None:
    custom = runtime()
    source = {"configMapKeyRef": {"name": "settings", "key": "rendezvous"}}
    main(custom)["env"] = [{"name": "PET_RDZV_CONF", "valueFrom": source}]
    assert errors(custom, elastic()) == {("ET2139", "variable PET_RDZV_CONF")}


def plain(**job_set: Any) -> dict[str, Any]:
    return of_parts({"numNodes": 2}, part("node", "trainer", command=["train"]), **job_set)


def test_nodes_that_nobody_tells_their_number_scale_as_they_are() -> None:
    grown = pods(plain(), job(), more(1))
    assert grown[:2] == pods(plain(), job())
    assert names(plain(), job(), less(["t-node-0-0"])) == ["t-node-0-1"]
    compilation = etcompile.compile([plain(), elastic("2:2"), more(1)])
    assert [one.code for one in compilation.diagnostics] == ["ET3004"]


def test_a_job_that_any_pod_ends_has_one_of_each() -> None:
    custom = of_parts(
        {"numNodes": 1},
        part("other", command=["serve"]),
        part("node", "trainer", command=["train"]),
        successPolicy={"operator": "Any"},
    )
    assert errors(custom, elastic("1:2")) == {("ET2139", f"annotation {NNODES}")}
    compilation = etcompile.compile([custom, job(), more(1)])
    assert [one.code for one in compilation.diagnostics] == ["ET3006"]


def test_who_fetches_data_stays_when_nodes_come() -> None:
    train_job = elastic(trainer={"numNodes": 2})
    before = names(with_data(), train_job)
    after = names(with_data(), train_job, more(1))
    assert after == [*before, "t-node-0-2"]
    assert "t-dataset-initializer-0-0" in before


def test_a_patch_of_the_runtime_reaches_nodes_that_come() -> None:
    pod = {"spec": {"nodeSelector": {"a": "b"}}}
    tree = {"name": "node", "template": {"spec": {"template": pod}}}
    spec = {"template": {"spec": {"replicatedJobs": [tree]}}}
    patch = {"manager": "example.com/a", "trainingRuntimeSpec": spec}
    train_job = elastic(runtimePatches=[patch])
    rendered = pods(runtime(), train_job, more(1))
    assert [pod["spec"]["nodeSelector"] for pod in rendered] == [{"a": "b"}] * 3


def test_a_job_that_is_suspended_scales_too() -> None:
    train_job = elastic(suspend=True)
    compilation = etcompile.compile([runtime(), train_job, more(1)])
    assert compilation.ok
    assert not [value for value in compilation.objects if value["kind"] == "Pod"]


def test_of_a_gang_so_many_begin_as_are_needed() -> None:
    settings = etcompile.Settings(gang="coscheduling")
    compilation = etcompile.compile(
        [runtime(), elastic(trainer={"numNodes": 3})], etcompile.Options(settings=settings)
    )
    [group] = [value for value in compilation.objects if value["kind"] == "PodGroup"]
    assert group["spec"]["minMember"] == 2


# MPI --------------------------------------------------------------------------------------------

HOROVOD = ["horovodrun", "-np", "2", "--host-discovery-script", "/etc/mpi/discover_hosts.sh", "t"]


def with_hosts(count: int, nodes: str = "2:4", **policy: Any) -> tuple[dict[str, Any], ...]:
    """A job of MPI whose nodes come and go, with its runtime."""
    trainer = {"numNodes": count, "command": HOROVOD}
    return mpi(**policy), elastic(nodes, trainer=trainer)


def config(*inputs: dict[str, Any]) -> dict[str, Any]:
    [value] = objects("ConfigMap", *inputs)
    return dict(value["data"])


def test_the_launcher_of_mpi_asks_who_is_there() -> None:
    data = config(*with_hosts(3))
    assert data["hosts"] == "t-node-0-0.t:1\nt-node-0-1.t:1\nt-launcher-0-0.t:1\n"
    assert "/etc/etcompile/hosts/hosts" in data["discover_hosts.sh"]
    launcher = named(pods(*with_hosts(3)))["t-launcher-0-0"]
    [volume] = [one for one in launcher["spec"]["volumes"] if one["name"] == "mpi-hostfile"]
    assert [item["path"] for item in volume["configMap"]["items"]] == [
        "hostfile",
        "discover_hosts.sh",
    ]


def test_hosts_come_and_go_and_the_launcher_is_one_of_the_number() -> None:
    three, four = pods(*with_hosts(3)), pods(*with_hosts(4))
    assert [pod for pod in four if pod in three] == three
    assert [pod["metadata"]["name"] for pod in four if pod not in three] == ["t-node-0-2"]
    diagnostics = etcompile.compile([*with_hosts(3), more(2)]).diagnostics
    assert [one.message for one in diagnostics if one.code == "ET3004"] == [
        f"ScaleOut scaleout would make 5 workers, but the maximum of {NNODES} is 4"
    ]
    diagnostics = etcompile.compile([*with_hosts(3), less(2)]).diagnostics
    assert [one.message for one in diagnostics if one.code == "ET3005"] == [
        f"ScaleIn scalein would leave 1 workers, but the minimum of {NNODES} is 2"
    ]


@pytest.mark.parametrize(("count", "nodes"), [(1, "2:4"), (3, "1:4")])
def test_a_launcher_that_is_alone_cannot_be_joined(count: int, nodes: str) -> None:
    assert ("ET2139", f"annotation {NNODES}") in errors(*with_hosts(count, nodes))


def test_a_launcher_that_is_no_node_counts_none() -> None:
    documents = with_hosts(2, "1:4", runLauncherAsNode=False)
    assert "t-launcher" not in config(*documents)["hosts"]
    assert len(pods(*documents, more(2))) == 5


def test_without_the_annotation_the_hostfile_of_mpi_is_written_once() -> None:
    documents = mpi(), job(trainer={"numNodes": 2})
    assert "discover_hosts.sh" not in config(*documents)
    diagnostics = etcompile.compile([*documents, more(1)]).diagnostics
    [message] = [one.message for one in diagnostics if one.code == "ET3006"]
    assert f"the hostfile is written once, unless {NNODES} gives a range" in message
