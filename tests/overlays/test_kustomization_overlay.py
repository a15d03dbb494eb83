"""A kustomization given as an overlay: kustomize has overlays, too, and they are others."""

import pytest

import etcompile
from etcompile.compiler.choices import Options
from specs import training_job

NAMED = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"


@pytest.mark.parametrize("text", [NAMED, "resources: [a.yaml]\n"])
@pytest.mark.parametrize("file", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
def test_it_is_said_that_it_is_one(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    for path in (tmp_path, tmp_path / file):
        options = Options(overlays=(str(path),))
        (problem,) = etcompile.compile(training_job("bert"), options).diagnostics
        assert problem.code == "ET6010"
        assert problem.location.file == str(tmp_path / file)
        assert problem.location.line


def test_overlay_next_to_a_kustomization_takes_precedence(tmp_path):
    (tmp_path / "kustomization.yaml").write_text(NAMED)
    (tmp_path / "overlay.yaml").write_text("apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\n")
    assert etcompile.compile(training_job("bert"), Options(overlays=(str(tmp_path),))).ok
