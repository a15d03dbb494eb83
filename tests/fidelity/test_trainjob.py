"""What the author of a runtime wrote into its Pod template arrives, or somebody is told."""

from defects.test_trainer import job, main, pods, runtime, variables
from etcompile import Settings
from specs import compiled


def test_a_variable_of_the_job_takes_the_place_of_the_runtimes() -> None:
    custom = runtime()
    main(custom)["env"] = [
        {"name": "A", "value": "runtime"},
        {"name": "PET_NNODES", "value": "99"},
        {"name": "B", "value": "$(A)-x"},
    ]
    env = [{"name": "C", "value": "new"}, {"name": "A", "value": "job"}]
    values = variables(pods(custom, job(trainer={"env": env}))[0])
    assert [*values][:4] == ["A", "PET_NNODES", "B", "C"]
    assert (values["A"], values["PET_NNODES"], values["B"]) == ("job", "2", "$(A)-x")


def test_a_run_keeps_its_host_names() -> None:
    compilation = compiled(runtime(), job(), settings=Settings(run="a1"))
    nodes = [value for value in compilation.objects if value["kind"] == "Pod"]
    assert [pod["spec"]["hostname"] for pod in nodes] == ["t-node-0-0", "t-node-0-1"]
    assert {variables(pod)["PET_MASTER_ADDR"] for pod in nodes} == {"t-node-0-0.t"}
