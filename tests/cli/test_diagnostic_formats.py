"""`--output-format`, as a CI job meets it: what goes where, and that it is one document."""

import json
from pathlib import Path

import jsonschema
import yaml

from commandline import at_a_shell, etcompile

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "trainingjob" / "elastic-mnist"
JOB = (EXAMPLE / "job.yaml").read_text()
WARNED = JOB.replace("horovod:0.28.1", "horovod:latest")
BROKEN = JOB.replace("replicas: 2", "replica: 2")


def codes(document: str) -> list[str]:
    return [entry["code"] for entry in json.loads(document)["diagnostics"]]


def uris(log: str) -> set[str]:
    (run,) = json.loads(log)["runs"]
    return {
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]
    }


def test_check_writes_the_document_to_standard_output_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(BROKEN)
    done = etcompile("check", "--output-format", "json", file)
    assert (done.returncode, done.stderr) == (2, "")
    (entry,) = json.loads(done.stdout)["diagnostics"]
    assert (entry["file"], entry["hint"]) == (str(file), "did you mean 'replicas'?")


def test_a_clean_check_has_no_annotations() -> None:
    done = etcompile("check", "--output-format", "github", EXAMPLE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_text_stays_on_standard_error() -> None:
    done = etcompile("check", "-", stdin=BROKEN)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error[ET2001]" in done.stderr


def test_render_keeps_standard_output_for_manifests() -> None:
    done = etcompile("render", "--output-format", "json", "-", stdin=WARNED, code=0)
    assert "Pod" in [value["kind"] for value in yaml.safe_load_all(done.stdout)]
    assert set(codes(done.stderr)) == {"ET2040"}


def test_a_folder_is_written_in_silence_for_machines(tmp_path: Path) -> None:
    done = etcompile("render", "--output-format", "json", EXAMPLE, "-d", tmp_path / "out")
    assert (done.returncode, done.stdout, codes(done.stderr)) == (0, "", [])


def test_warnings_and_a_refused_folder_are_one_document(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    done = etcompile("render", "--output-format", "json", "-", "-d", tmp_path, stdin=WARNED, code=2)
    assert set(codes(done.stderr)) == {"ET2040", "ET5001"}


def test_quiet_leaves_errors_only_in_every_form() -> None:
    done = etcompile("check", "-q", "--output-format", "json", "-", stdin=WARNED)
    assert (done.returncode, codes(done.stdout)) == (0, [])


def test_strict_decides_the_exit_code_and_not_the_severity() -> None:
    done = etcompile("check", "--strict", "--output-format", "sarif", "-", stdin=WARNED)
    (run,) = json.loads(done.stdout)["runs"]
    assert (done.returncode, {result["level"] for result in run["results"]}) == (2, {"warning"})


def test_files_are_named_from_the_root_of_the_repository(tmp_path: Path) -> None:
    jobs = tmp_path / "team" / "jobs"
    jobs.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (jobs / "job.yaml").write_text(BROKEN)
    for path in (".", "./job.yaml", jobs / "job.yaml", "../jobs"):
        sarif = etcompile("check", "--output-format", "sarif", path, cwd=jobs)
        assert uris(sarif.stdout) == {"team/jobs/job.yaml"}
        github = etcompile("check", "--output-format", "github", path, cwd=jobs)
        assert github.stdout.startswith("::error file=team/jobs/job.yaml,line=")


def test_an_absolute_path_inside_the_working_directory_never_shows(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(BROKEN)
    done = etcompile("check", "--output-format", "sarif", tmp_path / "job.yaml", cwd=tmp_path)
    assert str(tmp_path) not in done.stdout


def test_the_same_mistake_keeps_its_fingerprint_when_lines_are_added_above(tmp_path: Path) -> None:
    def fingerprints(text: str) -> list[object]:
        (tmp_path / "job.yaml").write_text(text)
        done = etcompile("check", "--output-format", "sarif", "job.yaml", cwd=tmp_path)
        (run,) = json.loads(done.stdout)["runs"]
        return [result["partialFingerprints"] for result in run["results"]]

    twice = f"{BROKEN}\n---\n{JOB}"
    assert fingerprints(twice)
    assert fingerprints(twice) == fingerprints(f"# one\n# two\n{twice}")


def test_a_locale_without_unicode_changes_no_byte(tmp_path: Path) -> None:
    (tmp_path / "ü.yaml").write_text(WARNED.replace("latest", "ö"))
    for form in ("json", "sarif", "github", "rdjson"):
        done = [
            at_a_shell("check", "--output-format", form, ".", cwd=tmp_path, env=environment)
            for environment in ({"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONUTF8": "1"})
        ]
        assert done[0].stdout == done[1].stdout
        assert done[0].returncode == done[1].returncode


def test_the_schema_of_the_document_can_be_had() -> None:
    schema = json.loads(etcompile("schema", "diagnostics").stdout)
    jsonschema.validate(
        json.loads(etcompile("check", "--output-format", "json", "-", stdin=BROKEN).stdout), schema
    )


def test_the_help_says_where_it_goes() -> None:
    for command in ("render", "check"):
        words = " ".join(etcompile(command, "--help").stdout.split())
        assert "--output-format [text|json|sarif|github|rdjson]" in words
        assert "check writes all formats but text to standard output" in words


def test_reviewdog_gets_a_correction_of_one_line_as_a_suggestion(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path)
    # Columns are counted in bytes: three letters before the field have two.
    line = 'env: [{name: RUN, value: x}, {name: "ÄÖÜ", valeu: "1"}]'
    image = next(line for line in JOB.splitlines() if "image: " in line)
    indent = " " * (len(image) - len(image.lstrip(" -")))
    line = f"{indent}{line}"
    job = JOB.replace(image, f"{image}\n{line}", 1)
    (tmp_path / "jobs/job.yaml").write_text(job, "utf-8")
    done = etcompile("check", "--output-format", "rdjson", "jobs")
    (entry,) = [e for e in json.loads(done.stdout)["diagnostics"] if e.get("suggestions")]
    assert entry["location"]["path"] == "jobs/job.yaml"
    (suggestion,) = entry["suggestions"]
    start, end = suggestion["range"]["start"], suggestion["range"]["end"]
    assert start["line"] == end["line"] == entry["location"]["range"]["start"]["line"]
    before = job.encode().splitlines()[start["line"] - 1]
    text = suggestion["text"].encode()
    after = before[: start["column"] - 1] + text + before[end["column"] - 1 :]
    assert after.decode() == line.replace("valeu", "value")
