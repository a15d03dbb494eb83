"""The schemas as editors get them: at the places that their ids name, and from a modeline."""

import json

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from published_schemas import ALL, BASE, CATALOG, published

import etcompile
from consumers.schemas import stored_schema
from etcompile import data, frontends
from etcompile.cli import schema
from specs import elastic_job, kubeflow_job, scale_out, training_job

PUBLISHED = published()
SCHEMAS = {name: one for name, one in PUBLISHED.items() if name != CATALOG}


def valid(value):
    """The faults of a document by the schema for all."""
    validator = jsonschema.Draft202012Validator(SCHEMAS[ALL])
    return [error.message for error in validator.iter_errors(value)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_published_at_its_id(name):
    # The schema for all has no address: an editor that reads it from a disk would fetch from there.
    assert SCHEMAS[name].get("$id") == (None if name == ALL else f"{BASE}{name}")
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("kind", frontends.kinds(), ids=lambda kind: str(kind.schema))
def test_every_kind_is_published_under_its_group_and_version(kind):
    assert f"{kind.api_version}/{kind.name}.json" in SCHEMAS


def test_every_schema_of_ours_that_stands_alone_is_published():
    shared = {"kubeflow.json", "object.json", "scaling.json"}
    files = {
        path.relative_to(data.folder("schemas")).as_posix(): json.loads(path.read_text("utf-8"))
        for folder in ("", "etcompile/")
        for path in data.folder("schemas").glob(f"{folder}*.json")
    }
    ids = {one["$id"] for name, one in files.items() if name not in shared}
    assert ids == {f"{BASE}{name}" for name in SCHEMAS if name != ALL}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_published_schema_needs_no_other(name):
    references = [
        part.partition('"')[0] for part in json.dumps(SCHEMAS[name]).split('"$ref": "')[1:]
    ]
    assert all(one.startswith("#/$defs/") for one in references)
    for reference in references:
        schema = SCHEMAS[name]
        for step in reference.removeprefix("#/").split("/"):
            schema = schema[step]
        assert schema


def test_the_schema_for_all_works_without_a_network():
    text = json.dumps(SCHEMAS[ALL])
    assert '"$id"' not in text
    assert text.count('"$schema"') == 1


def test_the_schema_for_all_knows_each_kind():
    assert valid(training_job()) == []
    assert valid(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})) == []
    assert valid(elastic_job()) == []
    assert valid(scale_out("more", 1)) == []
    job = training_job()
    job["spec"]["sizes"] = 3
    assert any("sizes" in message for message in valid(job))


def test_the_schema_for_all_leaves_other_objects_alone():
    assert valid({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}) == []


def test_the_catalog_has_the_form_of_schemastores():
    catalog = PUBLISHED[CATALOG]
    assert catalog["$schema"] == "https://json.schemastore.org/schema-catalog.json"
    jsonschema.validate(catalog, stored_schema("/schema-catalog.json"))
    assert {one["url"] for one in catalog["schemas"]} == {f"{BASE}{name}" for name in SCHEMAS}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_modeline_changes_nothing(newline, tmp_path):
    text = yaml.safe_dump(training_job("bert"))
    modeline = (
        f"# yaml-language-server: $schema={BASE}kai.alibabacloud.com/v1alpha1/TrainingJob.json"
    )
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    for folder, content in ((plain, text), (marked, f"{modeline}{newline}{text}")):
        folder.mkdir()
        (folder / "bert.yaml").write_bytes(content.encode())
    first, second = (etcompile.compile([folder]) for folder in (plain, marked))
    assert second.ok
    assert not second.diagnostics
    assert first.objects == second.objects


@pytest.mark.parametrize("name", ["EtcompileGenerator", "etcompiletransformer", "overlay", "plan"])
def test_what_is_no_kind_of_job_has_a_schema_too(name):
    done = CliRunner().invoke(schema.command, [name])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["$id"].lower().endswith(f"/{name.lower()}.json")
