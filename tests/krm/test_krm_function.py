"""What the function answers to a ResourceList, whoever hands it over."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import etcompile
from etcompile import Options
from etcompile.integrations.krm import answer
from specs import manifest, scale_out, training_job

ROOT = Path(__file__).parents[2]
V1, V1BETA1 = "config.kubernetes.io/v1", "config.kubernetes.io/v1beta1"
CONFIG_MAP = manifest("ConfigMap", "a", data={"b": "c"})


def listed(*items, config=None, version=V1):
    value = {"apiVersion": version, "kind": "ResourceList", "items": list(items)}
    return {**value, "functionConfig": config} if config else value


def transformer(**spec):
    kind = {"apiVersion": "etcompile.dev/v1alpha1", "kind": "EtcompileTransformer"}
    return {**kind, "metadata": {"name": "t"}, "spec": spec}


def run(value, **options):
    """The answer as a value, and whether it is a refusal."""
    data = value if isinstance(value, bytes) else yaml.safe_dump(value, sort_keys=False).encode()
    result = answer(data, Options(**options))
    text = "".join(result.texts())
    return (yaml.safe_load(text) if text else None), result.refused


def annotated(value, **notes):
    value = copy.deepcopy(value)
    metadata = value["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), **notes}
    return value


def test_a_job_is_replaced_in_its_place():
    last = {**CONFIG_MAP, "metadata": {"name": "last"}}
    output, _ = run(listed(CONFIG_MAP, training_job("bert"), last))
    names = [one["metadata"]["name"] for one in output["items"]]
    assert names[0] == "a"
    assert names[-1] == "last"
    assert output["items"][1:-1] == list(etcompile.compile(training_job("bert")).objects)


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_the_answer_has_the_version_of_the_question(version):
    output, _ = run(listed(training_job("bert"), version=version))
    assert (output["apiVersion"], output["kind"]) == (version, "ResourceList")


def test_the_configuration_comes_back_as_it_was():
    config = transformer(settings={"services": "shared"})
    output, _ = run(listed(training_job("bert"), config=config))
    assert output["functionConfig"] == config


def test_pipeline_annotations_do_not_change_the_objects():
    notes = {
        "config.kubernetes.io/index": "3",
        "internal.config.kubernetes.io/index": "3",
        "internal.config.kubernetes.io/id": "4",
        "kustomize.config.k8s.io/id": "kind: TrainingJob\n",
    }
    output, _ = run(listed(annotated(training_job("bert"), **notes)))
    assert output["items"] == list(etcompile.compile(training_job("bert")).objects)


def test_objects_go_to_the_file_of_their_job():
    path = "internal.config.kubernetes.io/path"
    job = annotated(training_job("bert"), **{path: "jobs/bert.yaml"})
    output, _ = run(listed(job))
    assert {one["metadata"]["annotations"][path] for one in output["items"]} == {"jobs/bert.yaml"}


def test_an_item_that_is_local_configuration_is_left_alone():
    job = annotated(training_job("bert"), **{"config.kubernetes.io/local-config": "true"})
    output, refused = run(listed(job))
    assert output["items"] == [job]
    assert not refused


def test_a_generator_does_not_return_its_configuration(tmp_path):
    file = tmp_path / "bert.yaml"
    file.write_text(yaml.safe_dump(training_job("bert")))
    config = transformer(inputs=[str(file)])
    config["kind"] = "EtcompileGenerator"
    echo = annotated(config, **{"config.kubernetes.io/local-config": "true"})
    output, _ = run(listed(echo, config=config))
    assert output["items"] == list(etcompile.compile(training_job("bert")).objects)


def test_a_job_as_configuration_comes_after_the_items():
    output, _ = run(listed(CONFIG_MAP, scale_out("s", 1, job="bert"), config=training_job("bert")))
    wanted = etcompile.compile([training_job("bert"), scale_out("s", 1, job="bert")])
    assert output["items"] == [CONFIG_MAP, *wanted.objects]


def test_comments_of_what_is_untouched_stay():
    text = """\
apiVersion: config.kubernetes.io/v1
kind: ResourceList
items:
  # about a
  - apiVersion: v1 # core
    kind: ConfigMap
    metadata: {name: a}   # short
    data:
      script: |
        # no comment
        - nor an item

        end
  - apiVersion: v1
    kind: Service
    # about s
    metadata:
      name: s
    spec: {ports: [{port: 1}]}
"""
    output = "".join(answer(text.encode(), Options()).texts())
    for words in ("# about a\n", "# core\n", "{name: a}   # short\n", "  # about s\n"):
        assert words in output
    assert yaml.safe_load(output) == yaml.safe_load(text)


def test_an_item_whose_lines_need_another_item_is_written_out():
    text = """\
apiVersion: config.kubernetes.io/v1
kind: ResourceList
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a, labels: &labels {x: "y"}}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: b, labels: *labels}
"""
    output = "".join(answer(text.encode(), Options()).texts())
    assert yaml.safe_load(output)["items"] == yaml.safe_load(text)["items"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_refusal_leaves_everything_as_it_was(strict):
    job = training_job("bert", replicas=12)
    job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    good = training_job("good")
    if strict:  # only a warning, of an image that moves
        job["spec"]["etReplicaSpecs"]["worker"].update(replicas=2)
        containers = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"]
        containers[0]["image"] = "horovod/horovod:latest"
    items = [CONFIG_MAP, good, job]
    output, refused = run(listed(*items, config=transformer(strict=strict)))
    assert refused
    assert output["items"] == items
    assert {one["severity"] for one in output["results"]} >= {"warning" if strict else "error"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"namespace": "NLP"}, "spec.namespace"),
        ({"settings": {"gang": "vulcano"}}, "spec.settings.gang"),
    ],
)
def test_a_mistake_in_the_configuration_has_its_field(spec, field):
    output, refused = run(listed(training_job("bert"), config=transformer(**spec)))
    [result] = output["results"]
    assert refused
    assert result["field"] == {"path": field}
    assert result["resourceRef"]["kind"] == "EtcompileTransformer"


def test_another_configuration_is_refused():
    output, refused = run(listed(CONFIG_MAP, config=CONFIG_MAP))
    assert refused
    assert [one["tags"]["name"] for one in output["results"]] == ["function-config"]
    assert output["items"] == [CONFIG_MAP]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a: [",
        b"\xff\xfe",
        yaml.safe_dump(training_job("bert")).encode(),
        b"apiVersion: config.kubernetes.io/v2\nkind: ResourceList\n",
        b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: {}\n",
        b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: [1]\n",
        b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nfunctionConfig: 1\n",
    ],
)
def test_what_is_no_resource_list_gets_no_answer(data):
    result = answer(data, Options())
    assert result.refused
    assert result.diagnostics
    assert "".join(result.texts()) == ""


def test_an_empty_list_is_one():
    assert run(listed())[0] == {"apiVersion": V1, "kind": "ResourceList", "items": []}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.lists(_VALUES, max_size=4))
def test_whatever_others_hold_comes_back(values):
    items = [
        {"apiVersion": "example.com/v1", "kind": "Any", "metadata": {"name": f"n{n}"}, "spec": one}
        for n, one in enumerate(values)
    ]
    question = json.dumps(listed(*items)).encode()
    assert run(question)[0]["items"] == items
    block = yaml.safe_dump(listed(*items)).encode()
    result = answer(block, Options())
    if not result.refused:  # PyYAML writes control characters that nobody else reads
        assert yaml.safe_load("".join(result.texts()))["items"] == items


RUNTIME, TRAIN_JOB = yaml.safe_load_all(
    (ROOT / "examples" / "trainjob" / "with-runtime" / "job.yaml").read_text("utf-8")
)
OTHER_RUNTIME = {**RUNTIME, "metadata": {"name": "other", "namespace": "ml"}}
LOCAL = {"config.kubernetes.io/local-config": "true"}


def test_a_runtime_becomes_part_of_the_job_that_names_it():
    output, _ = run(listed(RUNTIME, TRAIN_JOB))
    assert output["items"] == list(etcompile.compile([RUNTIME, TRAIN_JOB]).objects)
    assert "results" not in output


def test_a_runtime_that_no_job_names_is_for_somebody_else():
    output, _ = run(listed(OTHER_RUNTIME, RUNTIME, TRAIN_JOB))
    assert output["items"][0] == OTHER_RUNTIME
    assert "results" not in output
    output, _ = run(listed(RUNTIME, CONFIG_MAP))
    assert output["items"] == [RUNTIME, CONFIG_MAP]


def test_a_runtime_of_the_pipeline_alone_is_read_and_stays():
    local = annotated(RUNTIME, **LOCAL)
    output, _ = run(listed(local, TRAIN_JOB))
    assert output["items"] == [local, *etcompile.compile([RUNTIME, TRAIN_JOB]).objects]


def test_a_runtime_stays_that_a_job_names_which_is_not_compiled():
    skipped = copy.deepcopy(TRAIN_JOB)
    skipped["metadata"]["name"] = "other"
    skipped["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    output, _ = run(listed(RUNTIME, skipped, TRAIN_JOB), skip_managed_by=True)
    assert output["items"][:2] == [RUNTIME, skipped]
    output, refused = run(listed(skipped), skip_managed_by=True)
    assert output["items"] == [skipped]
    assert not refused, output["results"]


def test_the_jobs_of_a_folder_find_a_runtime_among_the_items(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(TRAIN_JOB), "utf-8")
    config = {**transformer(inputs=[str(tmp_path / "job.yaml")]), "kind": "EtcompileGenerator"}
    output, refused = run(listed(RUNTIME, config=config))
    assert not refused, output["results"]
    assert output["items"] == list(etcompile.compile([RUNTIME, TRAIN_JOB]).objects)
