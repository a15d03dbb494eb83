"""`check --fix` puts right what it says, in the lines it names, and leaves the rest as it is."""

import contextlib
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from msgspec import structs

import etcompile
from etcompile import fixes
from etcompile.cli.check import command
from etcompile.cli.main import program
from etcompile.diagnostics.diagnostic import Fix
from etcompile.fixes import fixed_files, text_edits, with_edits

ROOT = Path(__file__).parents[2]

EIGHT = Path(__file__).with_name("before.yaml").read_text("utf-8")
"""The file of docs/checks.md."""


def check(*paths, **options):
    return etcompile.compile([*paths], etcompile.Options(without_keys=True, **options))


def fixed(text, tmp_path, *, unsafe=False, newline=""):
    file = tmp_path / "job.yaml"
    file.write_text(text, "utf-8", newline=newline)
    files = fixed_files(lambda: check(file).findings, unsafe=unsafe)
    if not files:
        return text, []
    [one] = files
    return one.after.decode(), [diagnostic.code for diagnostic in one.fixed]


def job(policy="", extra="", template=""):
    return f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: llama
  namespace: ml
spec:
{policy}  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
{extra}      template:
        spec:
          containers:
            - name: pytorch
              image: ghcr.io/example/llama:2.4
              command: [python, train.py]
{template}"""


def etcompile_check(*arguments, cwd, stdin=None):
    """What `check` comes to, with all that it writes as bytes."""
    words = ["check", *map(str, arguments)]
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(program, words, input=stdin, prog_name="etcompile")
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout_bytes, done.stderr_bytes)


CASES = {
    "a field in another case": (
        job(extra="      # why two\n      Restart_policy: OnFailure  # here\n").replace(
            "      restartPolicy: OnFailure\n", ""
        ),
        ("      Restart_policy: OnFailure  # here", "      restartPolicy: OnFailure  # here"),
    ),
    "a choice in another case": (
        job().replace("OnFailure", "'onfailure'"),
        ("'onfailure'", "'OnFailure'"),
    ),
    "a number in quotes": (job().replace("replicas: 2", 'replicas: "2" # two'), ('"2"', "2")),
    "a number where text is wanted": (
        job(template="              env: [{name: A, value: 010}, {name: B, value: x}]\n"),
        ("value: 010", 'value: "010"'),
    ),
    "a boolean where text is wanted": (
        job(template="              env:\n              - name: A\n                value: yes\n"),
        ("value: yes", 'value: "yes"'),
    ),
    "an annotation that is a number": (
        job().replace("  namespace: ml", "  namespace: ml\n  annotations: {a/b: 1.10}"),
        ("a/b: 1.10", 'a/b: "1.10"'),
    ),
    "a former version": (
        job().replace("kubeflow.org/v1", "kubeflow.org/v1beta2"),
        ("kubeflow.org/v1beta2", "kubeflow.org/v1"),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_only_what_is_wrong_changes(case, newline, tmp_path):
    text, (wrong, right) = CASES[case]
    assert text.count(wrong) == 1
    after, codes = fixed(text, tmp_path, newline=newline)
    wanted = text.replace(wrong, right)
    assert after == wanted.replace("\n", newline)
    assert codes
    (tmp_path / "job.yaml").write_bytes(after.encode())
    assert not set(codes) & {d.code for d in check(tmp_path / "job.yaml").diagnostics}
    assert fixed(after, tmp_path, newline="")[1] == []


GUESSES = {
    "a typing error in a field": ("imagePullPolcy", "imagePullPolicy", "imagePullPolcy: Always"),
    "a typing error in a choice": ("IfNotPresnt", "IfNotPresent", "imagePullPolicy: IfNotPresnt"),
    "a unit that Kubernetes has not": ("2GB", "2Gi", "resources: {limits: {memory: 2GB}}"),
}


@pytest.mark.parametrize("case", GUESSES)
def test_likely_correction_is_applied_only_with_unsafe_fixes(case, tmp_path):
    wrong, right, line = GUESSES[case]
    text = job(template=f"              {line}\n")
    assert fixed(text, tmp_path) == (text, [])
    after, _ = fixed(text, tmp_path, unsafe=True)
    assert after == text.replace(wrong, right)
    assert not check(tmp_path / "job.yaml").ok
    (tmp_path / "job.yaml").write_text(after, "utf-8")
    assert check(tmp_path / "job.yaml").ok


LEFT = {
    "both spellings are there": job(extra="      RestartPolicy: Never\n"),
    "two fields resemble one": job(
        extra="      restart_policy: Never\n      RestartPolicy: x\n"
    ).replace("      restartPolicy: OnFailure\n", ""),
    "another version of Kubernetes has it": job(template="              restartPolicyRules: []\n"),
    "there is another value where it belongs": job(
        policy="  runPolicy: {cleanPodPolicy: None}\n  cleanPodPolicy: All\n"
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_may_mean_two_things_is_left_to_its_author(case, tmp_path):
    text = LEFT[case]
    assert fixed(text, tmp_path) == (text, [])


def test_documents_of_a_file_are_corrected_each_in_its_place(tmp_path):
    good = job().replace("llama", "good")
    bad = job().replace("OnFailure", "onFailure")
    text = f"# first\n---\n{good}---\n# second\n{bad}...\n---\n{good.replace('good', 'last')}"
    after, codes = fixed(text, tmp_path)
    assert after == text.replace("onFailure", "OnFailure")
    assert len(codes) == 1


def test_an_anchor_is_corrected_where_it_stands_for_all_who_use_it(tmp_path):
    text = (
        job()
        .replace(
            "    Worker:\n",
            "    Master: &one\n      replicas: 1\n      restartPolicy: onFailure\n"
            "      template:\n        spec:\n          containers:\n"
            "            - {name: pytorch, image: a:1}\n    Worker:\n      <<: *one\n",
        )
        .replace("      restartPolicy: OnFailure\n      template", "      template")
    )
    after, codes = fixed(text, tmp_path)
    assert after == text.replace("onFailure", "OnFailure")
    assert codes


def test_a_byte_order_mark_stays(tmp_path):
    text = "\ufeff" + job().replace("OnFailure", "onFailure")
    assert fixed(text, tmp_path)[0] == text.replace("onFailure", "OnFailure")


def test_json_is_corrected_as_json(tmp_path):
    right = json.dumps(yaml.safe_load(job()), indent=2)
    wrong = right.replace("pytorchReplicaSpecs", "PyTorchReplicaSpecs")
    after, _ = fixed(wrong.replace('"replicas": 2', '"replicas": "2"'), tmp_path)
    assert after == right


def test_a_stray_field_is_reported_and_left_to_its_author(tmp_path):
    text = job(policy="  cleanPodPolicy: All\n")
    assert fixed(text, tmp_path) == (text, [])
    assert [d.code for d in check(tmp_path / "job.yaml").diagnostics] == ["ET2110"]


def test_impossible_correction_does_not_prevent_other_corrections(tmp_path):
    policy = "  runPolicy: {backoffLimit: 3}\n  cleanPodPolicy: all  # of them\n"
    text = job(policy=policy)
    after, codes = fixed(text, tmp_path)
    # The comment has no place in the brackets, so the field stays.
    assert after == text.replace("all ", "All ")
    assert codes == ["ET2007"]


def test_suppressed_warning_is_not_fixed(tmp_path):
    text = job(policy="  cleanPodPolicy: All  # etcompile: ignore[ET2110]\n")
    assert fixed(text, tmp_path) == (text, [])


def test_an_overlay_is_corrected_where_it_is_written(tmp_path):
    (tmp_path / "job.yaml").write_text(job(), "utf-8")
    folder = tmp_path / "overlays" / "prod"
    folder.mkdir(parents=True)
    overlay = (
        "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\nmetadata: {name: prod}\n"
        "patches:\n  - target: {kind: PyTorchJob}\n    patch:\n"
        "      spec: {runPolicy: {cleanPodPolicy: all}}  # of production\n"
    )
    (folder / "overlay.yaml").write_text(overlay, "utf-8")
    corrected = fixed_files(lambda: check(tmp_path / "job.yaml", overlays=(str(folder),)).findings)
    assert [(Path(one.file).name, one.after.decode()) for one in corrected] == [
        ("overlay.yaml", overlay.replace("all}", "All}"))
    ]


def edited(text, edits):
    for edit in reversed(edits):
        lines = text.splitlines(keepends=True)
        start = sum(map(len, lines[: edit.line - 1])) + edit.column - 1
        end = sum(map(len, lines[: edit.end_line - 1])) + edit.end_column - 1
        text = text[:start] + edit.text + text[end:]
    return text


def test_edits_of_the_text_say_the_same_as_the_fixed_text(tmp_path):
    file = tmp_path / "job.yaml"
    text = EIGHT.replace("PytorchReplicaSpecs", "pytorchReplicaSpecs")
    file.write_text(text, "utf-8")
    findings = with_edits(check(file).findings)
    assert sum(finding.fix is not None for finding in findings) >= 5
    for finding in findings:
        if finding.fix is None:
            continue
        without_edits = structs.replace(finding, fix=structs.replace(finding.fix, edits=()))
        assert isinstance(without_edits.fix, Fix)
        [fixed_file] = fixed_files(lambda without_edits=without_edits: [without_edits], unsafe=True)
        assert edited(text, finding.fix.edits) == fixed_file.after.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [("a\nb\nc", "a\nb\nd"), ("a\n", "b\na\n"), ("a\nb", "a"), ("a\nb\n", "a\nb\nc"), ("", "x\n")],
)
def test_edits_lead_from_a_text_to_another(before, after):
    assert edited(before, list(text_edits(before, after))) == after


def test_a_text_is_read_once_however_many_fixes_it_gets(tmp_path, monkeypatch):
    """Else the time grows with the square of their number."""
    read = []
    compose_all = yaml.compose_all
    monkeypatch.setattr(yaml, "compose_all", lambda *a: read.append(a[0]) or compose_all(*a))
    counts = []
    for number in (3, 60):
        variables = "".join(
            f"                - {{name: V{n}, value: {n}}}\n" for n in range(number)
        )
        read.clear()
        after, codes = fixed(job(template=f"              env:\n{variables}"), tmp_path)
        assert len(codes) == number
        assert after.count('"') == 2 * number
        counts.append(sum("kind: PyTorchJob" in text for text in read))
    assert counts[0] == counts[1]


# On the command line ------------------------------------------------------------------------------


def test_the_page_shows_what_the_command_does(tmp_path):
    (tmp_path / "job.yaml").write_text(EIGHT, "utf-8")
    shown = etcompile_check("job.yaml", "--diff", "--unsafe-fixes", cwd=tmp_path)
    assert shown.returncode == 1
    assert (tmp_path / "job.yaml").read_text("utf-8") == EIGHT
    done = etcompile_check("job.yaml", "--fix", "--unsafe-fixes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = (tmp_path / "job.yaml").read_text("utf-8")
    assert after == Path(__file__).with_name("after.yaml").read_text("utf-8")
    assert "7 corrections" in done.stderr.decode()
    assert done.stderr.decode() in (ROOT / "docs" / "checks.md").read_text("utf-8")
    again = etcompile_check("job.yaml", "--fix", "--unsafe-fixes", cwd=tmp_path)
    assert again.returncode == 0
    assert "correction" not in again.stderr.decode()


def test_a_diff_can_be_applied_as_a_patch(tmp_path):
    (tmp_path / "job.yaml").write_text(EIGHT, "utf-8")
    shown = etcompile_check("job.yaml", "--diff", "--unsafe-fixes", cwd=tmp_path)
    subprocess.run(["git", "apply", "-p0", "-"], input=shown.stdout, cwd=tmp_path, check=True)
    after = (tmp_path / "job.yaml").read_text("utf-8")
    assert after == Path(__file__).with_name("after.yaml").read_text("utf-8")


def test_check_reports_possible_corrections_without_changing_the_file(tmp_path):
    (tmp_path / "job.yaml").write_text(EIGHT, "utf-8")
    done = etcompile_check("job.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "can be corrected with --fix" in done.stderr.decode()
    assert (tmp_path / "job.yaml").read_text("utf-8") == EIGHT


def test_the_mode_of_a_file_stays_and_a_link_is_not_followed(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(job().replace("OnFailure", "onFailure"), "utf-8")
    file.chmod(0o640)
    (tmp_path / "link.yaml").symlink_to("job.yaml")
    through = etcompile_check("link.yaml", "--fix", cwd=tmp_path)
    assert through.returncode == 2
    assert b"ET5023" in through.stderr
    assert (tmp_path / "link.yaml").is_symlink()
    done = etcompile_check("job.yaml", "--fix", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o640


def test_what_comes_on_standard_input_goes_corrected_to_standard_output(tmp_path):
    text = job().replace("OnFailure", "onFailure").replace("image:", "imag:")
    done = etcompile_check("-", "--fix", cwd=tmp_path, stdin=text.encode())
    assert done.stdout.decode() == text.replace("onFailure", "OnFailure")
    assert done.returncode == 2
    assert "standard input: 1 correction" in done.stderr.decode()
    assert "did you mean 'image'?" in done.stderr.decode()
    again = etcompile_check(
        "-", "--fix", "--output-format", "json", cwd=tmp_path, stdin=done.stdout
    )
    assert again.stdout == done.stdout
    assert json.loads(again.stderr)["diagnostics"]


def test_what_is_no_yaml_goes_through_as_it_is(tmp_path):
    done = etcompile_check("-", "--fix", cwd=tmp_path, stdin=b"a: [\r\n")
    assert (done.stdout, done.returncode) == (b"a: [\r\n", 2)


NAMES = ("job.yaml", "a b/job.yaml", "ä/job.yaml")


@pytest.mark.parametrize("argument", [".", "ABSOLUTE", "*.yaml"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_patch_can_be_applied_however_its_files_were_named(argument, newline, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    text = job().replace("OnFailure", "onFailure") + "# no break at the end"
    names = NAMES if argument != "*.yaml" else NAMES[:1]
    for number, name in enumerate(names):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("llama", f"llama-{number}"), "utf-8", newline=newline)
    path = str(tmp_path) if argument == "ABSOLUTE" else argument
    shown = etcompile_check(path, "--diff", cwd=tmp_path)
    subprocess.run(["git", "apply", "-p0", "-"], input=shown.stdout, cwd=tmp_path, check=True)
    for name in names:
        assert b"OnFailure" in (tmp_path / name).read_bytes()
    assert etcompile_check(path, "--diff", cwd=tmp_path).returncode == 0


def test_a_patch_that_hides_a_credential_says_so(tmp_path):
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    text = job(
        template="              env:\n                - {name: A, value: 1}\n"
        f"                - {{name: AWS_SECRET_ACCESS_KEY, value: {secret}}}\n"
    )
    (tmp_path / "job.yaml").write_text(text, "utf-8")
    shown = etcompile_check("job.yaml", "--diff", cwd=tmp_path)
    assert secret.encode() not in shown.stdout + shown.stderr
    assert b"value: (hidden)" in shown.stdout
    assert b"cannot be applied" in shown.stderr
    etcompile_check("job.yaml", "--fix", cwd=tmp_path)
    after = (tmp_path / "job.yaml").read_text("utf-8")
    assert after == text.replace("value: 1}", 'value: "1"}')


def test_a_file_that_is_read_only_is_left_alone_and_the_others_are_corrected(tmp_path):
    wrong = job().replace("OnFailure", "onFailure")
    for name in "abc":
        (tmp_path / f"{name}.yaml").write_text(wrong.replace("llama", name), "utf-8")
    (tmp_path / "a.yaml").chmod(0o444)
    done = etcompile_check(".", "--fix", cwd=tmp_path)
    stderr = done.stderr.decode()
    assert done.returncode == 2
    assert "cannot write ./a.yaml: it is read-only" in stderr
    assert (tmp_path / "a.yaml").read_text("utf-8") == wrong.replace("llama", "a")
    for name in "bc":
        assert f"./{name}.yaml: 1 correction" in stderr
        assert "OnFailure" in (tmp_path / f"{name}.yaml").read_text("utf-8")


def test_what_somebody_changes_meanwhile_is_not_written_over(tmp_path, monkeypatch):
    file = tmp_path / "job.yaml"
    file.write_text(job().replace("OnFailure", "onFailure"), "utf-8")

    def fixed_then_changed(*arguments, **options):
        result = fixed_files(*arguments, **options)
        file.write_text("# mine\n", "utf-8")
        return result

    monkeypatch.setattr(fixes, "fixed_files", fixed_then_changed)
    result = CliRunner().invoke(command, [str(file), "--fix"])
    assert result.exit_code == 2
    assert "somebody has changed it since it was read" in result.output
    assert file.read_text("utf-8") == "# mine\n"


@pytest.mark.parametrize("arguments", [["--fix", "--diff"], ["--unsafe-fixes"]])
def test_options_that_contradict_each_other_are_refused(arguments, tmp_path):
    (tmp_path / "job.yaml").write_text(job(), "utf-8")
    done = etcompile_check("job.yaml", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert b"Usage:" in done.stderr


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_forms_for_machines_carry_the_fixes(form, tmp_path):
    (tmp_path / "job.yaml").write_text(job().replace("OnFailure", "onFailure"), "utf-8")
    output = json.loads(etcompile_check("job.yaml", "--output-format", form, cwd=tmp_path).stdout)
    if form == "json":
        [diagnostic] = output["diagnostics"]
        edit = {"line": 10, "column": 22, "endLine": 10, "endColumn": 31, "text": "OnFailure"}
        about = {"title": "write OnFailure", "safe": True, "file": "job.yaml"}
        assert diagnostic["fix"] == {**about, "edits": [edit]}
    else:
        [result] = output["runs"][0]["results"]
        [fix] = result["fixes"]
        [change] = fix["artifactChanges"]
        assert change["artifactLocation"]["uri"].endswith("job.yaml")
        [replacement] = change["replacements"]
        region = {"startLine": 10, "startColumn": 22, "endLine": 10, "endColumn": 31}
        assert replacement["deletedRegion"] == region
        assert replacement["insertedContent"] == {"text": "OnFailure"}


@pytest.mark.parametrize(
    ("line", "is_quoted"),
    [
        ("imagePullPolicy: 7", False),  # none of the choices, in quotes or not
        ("terminationMessagePath: 7", True),
        ("volumeMounts: [{name: 7, mountPath: /data}]", False),  # no volume has this name
        ("resources: {limits: {cpu: true}}", False),
    ],
)
def test_a_number_is_left_as_it_is_where_its_text_would_be_refused_too(line, is_quoted, tmp_path):
    text = job(
        template=f"              {line}\n              stdin: 7\n              tty: 'true'\n"
    )
    result, _ = fixed(text, tmp_path)
    assert "tty: true" in result
    assert (line in result) != is_quoted
