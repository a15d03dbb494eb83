"""Every diagnostic about an input says where: a file of it, a line within that file, a column.

`inputs/` has a file for each code that an input alone can provoke, some with more words behind the
code; one that takes an overlay has that after a line `--- # overlay`. What a file is not to blame
for (an option, a cluster, an output folder) has no place in one.
"""

import re
from io import BytesIO
from pathlib import Path

import pytest
import yaml

import etcompile
from etcompile import Options, Settings
from etcompile.diagnostics import RULES, Diagnostic
from etcompile.load import parse
from etcompile.plan.plan_file import PlanError, read_plan

INPUTS = Path(__file__).parent / "inputs"
FILES = sorted(INPUTS.glob("ET*.yaml"))
WITHOUT_FILE = re.compile("ET(100[12]|1033|1044|50|7|8|9)")
"""Codes of whole files, options, output folders and clusters; advice is in `tests/lint`."""
JOB = (INPUTS / "ET2130.yaml").read_text().replace("2147483647", "2")
OVERLAY = "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n"
KEY = "-----BEGIN RSA PRIVATE KEY-----\\nabc\\n"


def diagnostics(text: str, overlay: str = "", **options: object) -> tuple[Diagnostic, ...]:
    """What is told of a job's file and an overlay's, each at a place that is in it."""
    lines = {"-": text.splitlines(), "overlay.yaml": overlay.splitlines()}
    overlays = parse(overlay, file="overlay.yaml").documents if overlay else ()
    reported = etcompile.compile(
        "-", Options(overlays=overlays, **options), stdin=BytesIO(text.encode())
    ).diagnostics
    for one in reported:
        place = one.location
        assert place is not None, one
        assert place.line is not None, one
        assert 1 <= place.line <= len(lines[place.file]), one
        assert place.column is not None, one
        assert 1 <= place.column <= len(lines[place.file][place.line - 1]) + 1, one
    return reported


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_diagnostic_about_an_input_has_a_place_in_it(file: Path) -> None:
    code = file.stem[:6]
    assert code in RULES
    text, _, overlay = file.read_text().partition("--- # overlay\n")
    assert code in {one.code for one in diagnostics(text, overlay, lint=code.startswith("ET9"))}


def test_most_codes_that_an_input_provokes_have_one() -> None:
    known = {code for code in RULES if not WITHOUT_FILE.match(code)}
    assert len({file.stem[:6] for file in FILES} & known) > 0.6 * len(known)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"metadata": {"annotations": {"a": "x" * 270_000}}}, "ET4002"),
        ({"metadata": {"annotations": {"a": f"{KEY}"}}}, "ET4006"),
    ],
)
def test_object_broken_by_an_overlay_patch_is_reported_with_its_code(
    change: dict[str, object], code: str
) -> None:
    patches = [{"target": {"kind": "Pod"}, "patch": change}]
    overlay = OVERLAY + yaml.safe_dump({"patches": patches})
    assert code in {one.code for one in diagnostics(JOB, overlay)}


def test_private_key_is_reported_at_its_line_without_showing_it() -> None:
    text = JOB.replace("[sleep, inf]", f'["sleep", "{KEY}"]')
    places = {one.location for one in diagnostics(text) if one.code == "ET4006"}
    line = next(n for n, words in enumerate(text.splitlines(), 1) if "PRIVATE" in words)
    assert [(place and place.line, place and place.hidden) for place in places] == [(line, True)]


@pytest.mark.parametrize(
    "setting",
    ["existing:No_Name", "sealed:absent.pem", "csi:absent.yaml", "sops:age1nobody", "sealed:/"],
)
def test_secret_mode_of_an_overlay_is_reported_at_the_overlay(setting: str) -> None:
    reported = diagnostics(JOB, f"{OVERLAY}settings:\n  secret: {setting}\n")
    places = [one.location for one in reported if one.code in ("ET5016", "ET6009", "ET1002")]
    assert [(place and place.file, place and place.line) for place in places] == [
        ("overlay.yaml", 4)
    ]


def test_template_is_reported_at_the_line_that_does_not_render(tmp_path: Path) -> None:
    for name in ("discover_hosts.sh.j2", "kubexec.sh.j2"):
        (tmp_path / name).write_text("a\nb {{ nothing }}\n")
    stdin = BytesIO(JOB.encode())
    reported = etcompile.compile("-", Options(templates=tmp_path), stdin=stdin).diagnostics
    places = [one.location for one in reported if one.code == "ET5004"]
    assert [(place and Path(place.file).parent, place and place.line) for place in places] == [
        (tmp_path, 2)
    ]


def test_a_large_maximum_of_replicas_is_no_number_of_pods() -> None:
    text = JOB.replace("replicas: 2", "replicas: 2\n      maxReplicas: 2147483647")
    assert diagnostics(text) == ()
    assert "ET2130" in {
        one.code for one in diagnostics(JOB.replace("replicas: 2", "replicas: 2147483647"))
    }


def test_an_option_is_in_no_file() -> None:
    stdin = BytesIO(JOB.encode())
    compilation = etcompile.compile("-", Options(settings=Settings(run="A B")), stdin=stdin)
    assert [(one.code, one.location) for one in compilation.diagnostics] == [("ET5005", None)]


def test_what_is_wrong_with_a_plan_is_named_with_its_path() -> None:
    text = (
        b'{"apiVersion": "etcompile.dev/v1", "kind": "Plan", "version": 1,'
        b' "against": "cluster", "steps": [{"id": "a", "action": "dance", "object": {}}]}'
    )
    with pytest.raises(PlanError) as caught:
        read_plan(text)
    assert caught.value.path == ("steps", 0, "action")


@pytest.mark.parametrize(
    "end",
    [b'"steps":' + b"[" * 100_000, b'"steps": null}', b'"steps": ["\xff"]}', b'"steps": [1,]}'],
    ids=["deep", "null", "no text", "no JSON"],
)
def test_a_broken_plan_is_refused_in_words(end: bytes) -> None:
    with pytest.raises(PlanError, match="this is not a plan"):
        read_plan(
            b'{"apiVersion": "etcompile.dev/v1", "kind": "Plan", "version": 1,'
            b' "against": "cluster", ' + end
        )
