"""One schema made of a schema and the files it refers to."""

import json

import pytest

from etcompile.check.json_schemas import bundled_schema


def write(folder, **files):
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


def test_definitions_are_bundled_from_other_files_transitively(tmp_path):
    write(
        tmp_path,
        kinds__job={
            "properties": {
                "name": {"$ref": "../shared.json#/$defs/name", "description": "The job's."},
                "size": {"$ref": "#/$defs/size"},
            },
            "$defs": {"size": {"type": "integer"}},
        },
        shared={
            "$defs": {
                "name": {"allOf": [{"$ref": "#/$defs/text"}, {"$ref": "more.json#/$defs/short"}]},
                "text": {"type": "string"},
                "other": {"$ref": "more.json#/$defs/long"},
            }
        },
        more={"$defs": {"short": {"maxLength": 5}, "long": {"minLength": 50}}},
    )
    assert bundled_schema(tmp_path / "kinds" / "job.json") == {
        "properties": {
            "name": {"$ref": "#/$defs/name", "description": "The job's."},
            "size": {"$ref": "#/$defs/size"},
        },
        "$defs": {
            "size": {"type": "integer"},
            "name": {"allOf": [{"$ref": "#/$defs/text"}, {"$ref": "#/$defs/short"}]},
            "text": {"type": "string"},
            "short": {"maxLength": 5},
        },
    }


def test_definitions_may_refer_to_each_other(tmp_path):
    write(
        tmp_path,
        job={"$ref": "a.json#/$defs/one"},
        a={"$defs": {"one": {"items": {"$ref": "b.json#/$defs/two"}}}},
        b={"$defs": {"two": {"items": {"$ref": "a.json#/$defs/one"}}}},
    )
    assert set(bundled_schema(tmp_path / "job.json")["$defs"]) == {"one", "two"}


def test_a_schema_that_refers_to_no_other_file_stays_as_it_is(tmp_path):
    schema = {"type": "object", "description": 'as in "$ref": "a.json#/$defs/b"'}
    write(tmp_path, job=schema)
    assert bundled_schema(tmp_path / "job.json") == schema


def test_a_reference_that_leads_nowhere_is_an_error(tmp_path):
    write(tmp_path, job={"$ref": "a.json#/$defs/one"}, a={"$defs": {"two": {}}})
    with pytest.raises(ValueError, match="no file defines 'one'"):
        bundled_schema(tmp_path / "job.json")
    write(tmp_path, job={"$ref": "absent.json#/$defs/one"})
    with pytest.raises(OSError, match=r"absent\.json"):
        bundled_schema(tmp_path / "job.json")


def test_one_name_for_two_definitions_is_an_error(tmp_path):
    write(
        tmp_path,
        job={"items": {"$ref": "a.json#/$defs/size"}, "$defs": {"size": {"type": "integer"}}},
        a={"$defs": {"size": {"type": "string"}}},
    )
    with pytest.raises(ValueError, match="'size' is defined in another file too"):
        bundled_schema(tmp_path / "job.json")


def test_each_call_returns_a_separate_schema():
    bundled_schema("TrainingJob.json").clear()
    assert bundled_schema("TrainingJob.json")["title"] == "TrainingJob (et-operator)"
