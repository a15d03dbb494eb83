"""A setting that is free text has a form, which every door holds it against."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import etcompile
from etcompile import Options
from etcompile.check.pod_rules import check_object
from etcompile.compiler.choices import refusal
from etcompile.compiler.configured import ConfigurationError, SettingError, configured_options
from etcompile.diagnostics import codes
from etcompile.k8s.names import image_problem
from etcompile.k8s.objects import may_have_namespace
from etcompile.load import from_values
from etcompile.model import SecretMode, Settings
from etcompile.model.settings import SETTINGS, secret_mode
from randomness import examples
from specs import overlay, training_job

BAD = {
    "cluster-domain": "bad domain!",
    "gang-scheduler": "bad name!",
    "init-image": "not an image",
    "kubectl-image": "Upper/x",
    "run": "Bad Run",
}
CAMEL = {field.replace("_", "-"): name for name, field in SETTINGS.items()}
JOB = training_job(launcherAttachMode="kubexec")
texts = st.text(max_size=20) | st.from_regex(r"[a-zA-Z0-9.:/@_-]{1,20}", fullmatch=True)


@pytest.mark.parametrize("name", BAD)
def test_malformed_setting_of_the_file_is_reported_at_its_line(name: str, tmp_path: Path) -> None:
    for table, line in (("", 2), ("[environments.prod]\n", 3)):
        (tmp_path / "etcompile.toml").write_text(f'# ours\n{table}{name} = "{BAD[name]}"\n')
        with pytest.raises(ConfigurationError) as caught:
            configured_options(tmp_path)
        [problem] = caught.value.diagnostics
        assert (problem.code, problem.location.line) == (codes.WRONG_SETTING, line)
        assert BAD[name] in problem.message


@pytest.mark.parametrize("name", BAD)
def test_malformed_setting_is_refused_by_every_door(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is not"):
        configured_options(tmp_path, **{name.replace("-", "_"): BAD[name]})
    by_overlay = Options(overlays=(overlay(settings={CAMEL[name]: BAD[name]}),))
    by_program = Options(settings=Settings(**{name.replace("-", "_"): BAD[name]}))
    for options in (by_overlay, by_program):
        [problem] = etcompile.compile([JOB], options).diagnostics
        assert BAD[name] in problem.message


def test_secret_mode_of_a_program_is_held_against_its_form() -> None:
    chosen = Settings(secret=SecretMode("existing", "No_Name"))
    [problem] = etcompile.compile([JOB], Options(settings=chosen)).diagnostics
    assert problem.code == codes.OPTION


@example("localhost:5000/a/b_c:1.2@sha256:" + "a" * 64)
@example("Upper/x")
@example("a:\u0660")
@given(
    st.text("aZ0.:/@_-[]", max_size=14)
    | st.from_regex(r"([a-zA]{1,3}|a\.b|\[::\])(:\d{1,3})?(/[a-z._-]{1,4}){0,2}(:[a-z.-]{0,3})?")
)
def test_schema_has_the_same_form_of_images_as_the_check(image: str) -> None:
    is_right = not image or image_problem(image) is None
    assert (refusal("init_image", image or None) is None) == is_right


@examples(150)
@example("cluster-domain", ".")
@example("kubectl-image", "")
@example("run", "\n")
@given(st.sampled_from([*BAD]), texts)
def test_any_text_of_a_setting_is_refused_or_renders_valid_objects(name: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"services": "shared", "gang": "volcano", name.replace("-", "_"): text}
        try:
            options = configured_options(folder, **settings)
        except SettingError:
            return
        compilation = etcompile.compile([JOB], options)
    assert compilation.ok, compilation.diagnostics
    for document in from_values(compilation.objects).documents:
        problems = check_object(document, "1.37", namespaced=may_have_namespace(document.data))
        assert {problem.code for problem in problems} <= {codes.KUBERNETES_UNKNOWN_KIND}


@pytest.mark.parametrize("text", ["existing:a", "runtime", "external:vault/ml"])
def test_secret_mode_of_a_program_may_be_text(text: str) -> None:
    chosen: Any = text
    assert Settings(secret=chosen) == Settings(secret=secret_mode(text))
    assert etcompile.compile([JOB], Options(settings=Settings(secret=chosen))).ok


@pytest.mark.parametrize("value", ["nonsense", "existing:No_Name", "", None, 3])
def test_wrong_secret_mode_of_a_program_is_a_diagnostic(value: Any) -> None:
    [problem] = etcompile.compile([JOB], Options(settings=Settings(secret=value))).diagnostics
    assert problem.code == codes.OPTION


@examples(30)
@example("newTag", "bad tag")
@example("newName", "Upper/x")
@given(st.sampled_from(["newName", "newTag"]), texts)
def test_overlay_gives_images_of_settings_valid_names_only(field: str, text: str) -> None:
    entry = {"name": "alpine/kubectl", field: text}
    result = etcompile.compile([JOB], Options(overlays=(overlay(images=[entry]),)))
    pods = [value["spec"] for value in result.objects if value["kind"] == "Pod"]
    parts = [part for pod in pods for part in (*pod["containers"], *pod.get("initContainers", ()))]
    assert [part["image"] for part in parts if image_problem(part["image"])] == []
    refused = {problem.code for problem in result.diagnostics if not result.ok}
    assert refused <= {codes.MALFORMED, codes.EMPTY}
