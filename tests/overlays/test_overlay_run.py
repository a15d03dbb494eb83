"""`settings.run` of an overlay: a run that is written down in Git."""

from etcompile import Options, Settings, compile  # noqa: A004
from specs import overlay, training_job


def pods(run: str | None = None, **options) -> set[str]:
    chosen = overlay(settings={} if run is None else {"run": run})
    compilation = compile([training_job()], Options(overlays=(chosen,), **options))
    assert compilation.ok, compilation.diagnostics
    return {one["metadata"]["name"] for one in compilation.objects if one["kind"] == "Pod"}


def test_it_names_the_pods_as_the_flag_does():
    assert "mnist-two-launcher" in pods("two")
    assert pods("auto") == pods(settings=Settings(run="auto"))


def test_the_flag_counts_more():
    assert "mnist-three-launcher" in pods("two", settings=Settings(run="three"))


def test_an_empty_one_is_none():
    assert "mnist-launcher" in pods("")


def test_one_that_cannot_be_part_of_a_name_is_refused_in_the_overlay(tmp_path):
    file = tmp_path / "overlay.yaml"
    file.write_text(
        "apiVersion: etcompile.dev/v1alpha1\nkind: Overlay\nsettings:\n  run: Not_a_name\n"
    )
    [problem] = compile([training_job()], Options(overlays=(file,))).diagnostics
    assert str(problem.location).endswith("overlay.yaml:4:8")
