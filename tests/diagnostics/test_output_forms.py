"""What scripts, code scanners and GitHub read, whatever the input says."""

import json
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.schemas import stored_schema
from etcompile import data
from etcompile.diagnostics import RULES, Diagnostic, Location, Severity, diagnose
from etcompile.diagnostics.output import FORMATS, Audience, render
from etcompile.load.configuration import root_of
from randomness import examples

HERE = Audience(root=Path("/repo"))
WEIRD = [
    *("\n", "\r\n", "%0A", "::error::x", "\x1b[31m", "\x00", "\u2028", "👩‍🚀", "\ud800"),
    *("{0}", "[a](b)"),
]
WORDS = st.lists(st.sampled_from(WEIRD) | st.text(st.characters(), max_size=8)).map("".join)
LOCATIONS = st.builds(
    Location,
    file=WORDS.map(lambda name: name or "-"),
    line=st.none() | st.integers(1, 10**6),
    column=st.none() | st.integers(1, 10**6),
    text=st.none() | WORDS,
    width=st.integers(1, 200),
)
DIAGNOSTICS = st.lists(
    st.builds(
        Diagnostic,
        code=st.sampled_from(sorted(RULES)),
        severity=st.sampled_from(Severity),
        message=WORDS,
        location=st.none() | LOCATIONS,
        hint=st.none() | WORDS,
    ),
    max_size=30,
)


def diagnostic(code="ET2040", file="/repo/jobs/bert.yaml", line=3, column=5, **facts):
    location = Location(file, line, column, text="  image: a", width=4)
    return diagnose(code, location, **{"image": "a", **facts})


def error(line, **facts):
    facts = {"where": "spec", "field": "x", "advice": "", **facts}
    return diagnostic("ET2001", line=line, **facts)


def formatted(form, *diagnostics, audience=HERE):
    return render(form, diagnostics, audience)


# json -----------------------------------------------------------------------------------------


def json_schema():
    return json.loads((data.folder("schemas") / "diagnostics.json").read_text())


def valid_json(text):
    document = json.loads(text)
    jsonschema.validate(document, json_schema(), jsonschema.Draft202012Validator)
    return document


def test_a_script_reads_what_a_person_reads():
    document = valid_json(formatted("json", diagnostic(), error(7, advice="did you mean 'y'?")))
    assert document["diagnostics"][1] == {
        "code": "ET2001",
        "name": "unknown-field",
        "severity": "error",
        "message": "spec has no field 'x'",
        "hint": "did you mean 'y'?",
        "file": "/repo/jobs/bert.yaml",
        "line": 7,
        "column": 5,
        "endColumn": 9,
        "fix": None,
    }
    assert document["counts"] == {"error": 1, "warning": 1}


def test_what_concerns_no_file_has_no_place():
    (entry,) = valid_json(formatted("json", diagnose("ET5006", None)))["diagnostics"]
    assert [entry[key] for key in ("file", "line", "column", "endColumn")] == [None] * 4


def test_no_diagnostics_are_an_empty_document():
    assert valid_json(formatted("json"))["diagnostics"] == []
    (run,) = valid_sarif(formatted("sarif"))["runs"]
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
    assert (formatted("github"), formatted("text")) == ("", "")


def test_the_schema_describes_exactly_what_is_written():
    document = valid_json(formatted("json", diagnostic()))
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(document) == set(schema["properties"]) == set(schema["required"])
    entry = schema["$defs"]["diagnostic"]
    assert set(document["diagnostics"][0]) == set(entry["properties"]) == set(entry["required"])
    assert set(document["counts"]) == {severity.value for severity in Severity}
    assert all(part["description"] for part in entry["properties"].values())


# sarif ----------------------------------------------------------------------------------------


@cache
def sarif_validator():
    return jsonschema.Draft7Validator(
        stored_schema("/sarif-schema-2.1.0.json"),
        format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER,
    )


def valid_sarif(text):
    log = json.loads(text)
    assert [error.message for error in sarif_validator().iter_errors(log)] == []
    return log


def run_of(*diagnostics, audience=HERE):
    (run,) = valid_sarif(formatted("sarif", *diagnostics, audience=audience))["runs"]
    return run


def fingerprints(run):
    return [result["partialFingerprints"]["etcompile/v1"] for result in run["results"]]


def test_the_sarif_schema_refuses_what_is_no_sarif():
    log = json.loads(formatted("sarif", diagnostic()))
    del log["runs"][0]["tool"]["driver"]["name"]
    assert list(sarif_validator().iter_errors(log))


def test_a_result_names_its_rule_level_and_region():
    run = run_of(diagnostic(), error(7), error(9))
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["ET2001", "ET2040"]
    assert [(r["ruleId"], r["ruleIndex"], r["level"]) for r in run["results"]] == [
        ("ET2040", 1, "warning"),
        ("ET2001", 0, "error"),
        ("ET2001", 0, "error"),
    ]
    [location] = run["results"][1]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "jobs/bert.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 7, "startColumn": 5, "endColumn": 9},
    }


def test_a_rule_brings_its_explanation():
    (rule,) = run_of(diagnostic())["tool"]["driver"]["rules"]
    assert rule["name"] == "mutable-image"
    assert rule["defaultConfiguration"] == {"level": "warning"}
    assert "pin a version tag" in rule["help"]["text"]
    assert rule["fullDescription"]["text"] == RULES["ET2040"].why


def test_github_gets_a_line_even_for_a_whole_file():
    (result,) = run_of(diagnostic(line=None, column=None))["results"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_what_concerns_no_file_is_a_notification_because_github_wants_places():
    run = run_of(diagnose("ET5006", None), diagnostic())
    assert [result["ruleId"] for result in run["results"]] == ["ET2040"]
    (invocation,) = run["invocations"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["associatedRule"] == {"id": "ET5006", "index": 1}
    assert "hold no job" in notification["message"]["text"]
    assert invocation["executionSuccessful"] is False
    assert run_of(error(1))["invocations"][0]["executionSuccessful"] is True


def test_a_fingerprint_survives_a_move_of_what_the_message_refers_to():
    def twice(line):
        first = Location("jobs/a.yaml", line, 9)
        return run_of(
            diagnostic("ET1018", what="Pod a", first=first),
            diagnostic("ET1006", key="k", first=line),
        )

    assert fingerprints(twice(3)) == fingerprints(twice(4711))


def test_fingerprints_tell_findings_apart():
    run = run_of(
        diagnostic(),
        diagnostic(line=4),
        diagnostic(image="b"),
        diagnostic(file="/repo/jobs/other.yaml"),
        diagnostic("ET2044", where="a"),
    )
    assert len(set(fingerprints(run))) == 5


def test_braces_and_links_in_a_message_are_words():
    (result,) = run_of(diagnostic(image="{0} [click](https://example.com)"))["results"]
    assert "'{{0}} [click] (https://example.com)'" in result["message"]["text"]


@pytest.mark.parametrize(
    ("file", "artifact"),
    [
        ("/repo/a b/ü%.yaml", {"uri": "a%20b/%C3%BC%25.yaml", "uriBaseId": "%SRCROOT%"}),
        ("/repo/a:b.yaml", {"uri": "a%3Ab.yaml", "uriBaseId": "%SRCROOT%"}),
        ("/repo/jobs/../x.yaml", {"uri": "x.yaml", "uriBaseId": "%SRCROOT%"}),
        ("/elsewhere/x y.yaml", {"uri": "file:///elsewhere/x%20y.yaml"}),
        ("-", {"uri": "-", "uriBaseId": "%SRCROOT%"}),
    ],
)
def test_a_file_is_named_from_the_root_of_the_repository(file, artifact):
    (result,) = run_of(diagnostic(file=file))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == artifact


def test_file_behind_a_symlink_is_named_relative_to_the_repository(tmp_path):
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "job.yaml").touch()
    (tmp_path / "link").symlink_to("repo")
    audience = Audience(root=tmp_path.resolve() / "repo")
    assert audience.name(str(tmp_path / "link" / "job.yaml")) == "job.yaml"


def test_the_repository_is_the_nearest_folder_with_git_in_it(tmp_path):
    inner = tmp_path / "outer" / "inner" / "jobs"
    inner.mkdir(parents=True)
    (tmp_path / "outer" / ".git").mkdir()
    assert Path(root_of(str(inner))) == tmp_path / "outer"
    (inner.parent / ".git").write_text("gitdir: elsewhere\n")
    assert Path(root_of(str(inner))) == inner.parent


# github ---------------------------------------------------------------------------------------


def test_a_command_escapes_what_would_end_it():
    hint = "pin a version tag or, better, a digest"
    assert formatted("github", diagnostic(file="/repo/a,b:c%.yaml", image="x\r\ny: 50%,")) == (
        "::warning file=a%2Cb%3Ac%25.yaml,line=3,col=5,endColumn=9,title=ET2040 mutable-image"
        f"::image 'x%0D%0Ay: 50%25,' can change under the same name%0Ahint: {hint}\n"
    )


def test_a_command_says_no_more_of_a_place_than_is_known():
    whole = formatted("github", diagnostic("ET1002", line=None, column=None))
    assert whole.startswith("::error file=jobs/bert.yaml,title=ET1002 no-such-path::")
    nothing = formatted("github", diagnose("ET5006", None))
    assert nothing.startswith("::error title=ET5006 nothing-rendered::")


def test_standard_input_is_said_in_the_message():
    line = formatted("github", diagnostic(file="-"))
    assert line.startswith("::warning title=ET2040 mutable-image::-:3:5: image 'a'")


def test_errors_come_first():
    commands = formatted("github", diagnostic(), error(7), diagnostic(), error(9)).splitlines()
    assert [line.split()[0] for line in commands] == ["::error"] * 2 + ["::warning"] * 2


def test_a_last_command_counts_what_github_does_not_show():
    lines = formatted("github", *[diagnostic()] * 11, *[error(1)] * 13).splitlines()
    assert len(lines) == 25
    assert lines[-1] == (
        "::notice title=etcompile::GitHub shows 10 errors and 10 warnings of a step;"
        " in the log: 3 more errors, 1 more warning"
    )
    assert "notice" not in formatted("github", *[diagnostic()] * 10, *[error(1)] * 10)


# any ------------------------------------------------------------------------------------------


@examples(100)
@given(diagnostics=DIAGNOSTICS)
def test_any_words_give_valid_json(diagnostics):
    text = formatted("json", *diagnostics)
    document = valid_json(text)
    assert len(document["diagnostics"]) == len(diagnostics)
    text.encode("ascii")
    json.dumps(document, ensure_ascii=False).encode()


@examples(50)
@given(diagnostics=DIAGNOSTICS)
def test_any_words_give_valid_sarif(diagnostics):
    text = formatted("sarif", *diagnostics)
    (run,) = valid_sarif(text)["runs"]
    text.encode("ascii")
    json.dumps(run, ensure_ascii=False).encode()
    reported = run["results"] + run["invocations"][0]["toolExecutionNotifications"]
    assert len(reported) == len(diagnostics)
    assert len(set(fingerprints(run))) == len(run["results"])


@examples(100)
@given(diagnostics=DIAGNOSTICS)
def test_any_words_give_something_that_reviewdog_reads(diagnostics):
    text = formatted("rdjson", *diagnostics)
    text.encode("ascii")
    document = json.loads(text)
    json.dumps(document, ensure_ascii=False).encode()
    assert len(document["diagnostics"]) == len(diagnostics)
    for entry in document["diagnostics"]:
        assert entry["severity"] in ("ERROR", "WARNING", "INFO")
        # One without a path is about the whole change; an empty path would be a file.
        assert entry.get("location", {"path": "a"})["path"]


@examples(100)
@given(diagnostics=DIAGNOSTICS)
def test_any_words_give_one_command_a_line(diagnostics):
    text = formatted("github", *diagnostics)
    text.encode()
    lines = text.splitlines()
    commands = [line for line in lines if not line.startswith("::notice ")]
    assert len(commands) == len(diagnostics)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)
    assert "\x1b" not in text


@examples(100)
@given(diagnostics=DIAGNOSTICS)
def test_any_words_give_text_that_leaves_the_terminal_alone(diagnostics):
    text = formatted("text", *diagnostics)
    assert all(c.isprintable() or c == "\n" for c in text)


def test_every_form_is_a_module_of_its_name():
    assert FORMATS == ("text", "json", "sarif", "github", "rdjson")
    for form in FORMATS:
        assert formatted(form, diagnostic()).endswith("\n")
