"""`$(VAR)` in the variables of a container comes to what it comes to with the source operator.

The operators append their variables to the template's; a name may stand twice then, and the kubelet
takes the list as it stands. Ours has each name once, and must come to the same. tests/oracle holds
what each kind comes to against the models of the operators.
"""

import copy
from typing import Any

import hypothesis.strategies as st
import pytest
from every_job import compiled, pod_templates
from hypothesis import given

from etcompile.backend.pod_fields import merged_variables
from kubelet_rule import environment, expanded
from randomness import examples
from specs import kubeflow_job, launcher, replicas, training_job

NAMES = ("A", "B", "C", "D", "E")
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
PIECES = st.sampled_from(
    ("x", "$", "$$", "(", ")", "$(", *(f"$({name})" for name in (*NAMES, "NOBODY")))
)
VALUES = st.lists(PIECES, max_size=4).map("".join)


def plain(*names: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Variables of a job: those that refer to others refer to the job's own."""
    chosen = st.lists(st.sampled_from(names), unique=True)
    return chosen.map(
        lambda names: [
            {"name": name, "value": "".join(f"$({one})" for one in names[:place]) or name.lower()}
            for place, name in enumerate(names)
        ]
    )


def entries(*names: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    def entry(name: str) -> st.SearchStrategy[dict[str, Any]]:
        written = VALUES.map(lambda value: {"name": name, "value": value})
        return written | st.just({"name": name, "valueFrom": SECRET}) | st.just({"name": name})

    chosen = st.lists(st.sampled_from(names), unique=True)
    return chosen.flatmap(lambda names: st.tuples(*map(entry, names)).map(list))


@examples(500)
@given(template=entries(*NAMES), job=plain(*NAMES), brought=st.sets(st.sampled_from(NAMES)))
def test_each_name_once_comes_to_what_the_appended_list_comes_to(template, job, brought) -> None:
    before = {name: f"from-{name}" for name in brought}
    merged = merged_variables(template, job)
    names = [entry["name"] for entry in merged]
    assert len(names) == len(set(names))
    assert shared(environment(merged, before)) == environment([*template, *job], before)


def shared(variables: dict[str, str]) -> dict[str, str]:
    """The variables that are not there for other variables only."""
    return {k: v for k, v in variables.items() if not k.startswith("ETCOMPILE_TEMPLATE_")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$(X)", "$(X)"),
        ("a$", "a$"),
        ("$$$(A)", "$1"),
        ("$(A", "$(A"),
    ],
)
def test_the_rule_that_this_is_held_against_is_the_kubelets(text: str, expected: str) -> None:
    assert expanded(text, {"A": "1"}) == expected


def test_a_text_takes_the_place_of_a_reference_to_it() -> None:
    env = [
        {"name": "MASTER_PORT", "value": "29400"},
        {"name": "STORE", "value": "tcp://rendezvous:$(MASTER_PORT)"},
    ]
    job = kubeflow_job("PyTorchJob", {"Master": replicas("PyTorchJob", 1, env=env)})
    (pod,) = pod_templates(compiled(job).objects)
    entries = pod["spec"]["containers"][0]["env"]
    assert entries[0] == {"name": "STORE", "value": "tcp://rendezvous:29400"}
    assert environment(entries)["MASTER_PORT"] == "23456"


def test_a_secret_that_something_refers_to_stays_under_another_name() -> None:
    env = [{"name": "RANK", "valueFrom": SECRET}, {"name": "KEY", "value": "key-$(RANK)"}]
    job = kubeflow_job("PyTorchJob", {"Master": replicas("PyTorchJob", 1, env=env)})
    (pod,) = pod_templates(compiled(job).objects)
    first, second = pod["spec"]["containers"][0]["env"][:2]
    assert first == {"name": "ETCOMPILE_TEMPLATE_RANK", "valueFrom": SECRET}
    assert second["value"] == "key-$(ETCOMPILE_TEMPLATE_RANK)"


def test_init_container_keeps_its_variable_list_unchanged() -> None:
    env = [{"name": "RANK", "value": "1"}, {"name": "X", "value": "$(RANK)"}]
    worker = replicas("PyTorchJob", 1)
    worker["template"]["spec"]["initContainers"] = [
        {"name": "get", "image": "busybox:1", "env": copy.deepcopy(env)}
    ]
    (pod,) = pod_templates(compiled(kubeflow_job("PyTorchJob", {"Master": worker})).objects)
    (init,) = (one for one in pod["spec"]["initContainers"] if one["name"] == "get")
    assert init["env"] == env


def test_the_launcher_of_kubexec_mode_resolves_what_upstream_resolves() -> None:
    job = training_job(launcherAttachMode="kubexec")
    env = [
        {"name": "OMPI_MCA_plm_rsh_agent", "value": "/mine.sh"},
        {"name": "AGENT", "value": "$(OMPI_MCA_plm_rsh_agent)"},
    ]
    launcher(job)["template"]["spec"]["containers"][0]["env"] = env
    launcher_pod = next(
        pod
        for pod in pod_templates(compiled(job).objects)
        if pod["metadata"]["labels"]["etcompile.dev/role"] == "launcher"
    )
    values = environment(launcher_pod["spec"]["containers"][0]["env"])
    assert values["AGENT"] == "/mine.sh"
    assert values["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/kubexec.sh"
