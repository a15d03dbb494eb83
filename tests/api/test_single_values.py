"""One text where a program may pass several is one name: a `str` is an iterable of letters, too."""

import inspect
import types
import typing
from collections import abc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import etcompile
from etcompile import Options, Settings, operations
from specs import training_job

ROOT = Path(__file__).parents[2]
COLLECTIONS = {tuple, list, set, frozenset, abc.Collection, abc.Iterable, abc.Sequence, abc.Set}


def takes_several_texts(hint: Any) -> bool:
    """Whether a value of this type may be a collection of texts."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(takes_several_texts(each) for each in typing.get_args(hint))
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin not in COLLECTIONS or (origin is tuple and inner[-1] is not Ellipsis):
        return False
    is_choice = typing.get_origin(inner[0]) is typing.Literal
    return is_choice or str in (inner[0], *typing.get_args(inner[0]))


def public_structs() -> Iterator[tuple[type, str]]:
    """Each field for several texts of what a program passes to etcompile."""
    for struct in (Options, Settings, operations.Rights, operations.Choices):
        hints = typing.get_type_hints(struct)
        for field in msgspec.structs.fields(struct):
            if takes_several_texts(hints[field.name]):
                yield struct, field.name


FIELDS = [*public_structs()]


def test_fields_for_several_texts_are_known():
    names = {name for _, name in FIELDS}
    assert {"overlays", "runtimes", "ignore", "explicit", "profiles", "take_ownership"} <= names


@pytest.mark.parametrize(("struct", "name"), FIELDS)
def test_single_text_in_a_field_is_one_name(struct: type, name: str):
    assert [*getattr(struct(**{name: "prod"}), name)] == ["prod"]
    assert getattr(struct(**{name: ("a", "b")}), name) == ("a", "b")


def test_single_overlay_compiles_as_a_tuple_of_it_does():
    documents = [training_job("bert")]
    one, several = (
        etcompile.compile(documents, Options(overlays=value)) for value in ("prod", ("prod",))
    )
    assert one.ok
    assert one.objects == several.objects != etcompile.compile(documents).objects


@pytest.mark.parametrize("overlay", [ROOT / "overlays" / "prod", {"kind": "Overlay"}])
def test_single_path_or_document_is_one_overlay(overlay: Any):
    assert Options(overlays=overlay).overlays == (overlay,)


def test_single_profile_compiles():
    result = etcompile.compile(training_job("bert"), Options(settings=Settings(profiles="argocd")))
    assert result.ok


FUNCTIONS = {
    "apply_proposal": {"targets"},
    "compared": {"paths", "targets"},
    "delete_proposal": {"jobs"},
    "job_set": {"paths"},
}
"""Parameters for several texts; the tests of `tests/apply` pass one text for those of a cluster."""


def test_functions_with_parameters_for_several_texts_are_known():
    functions = {}
    for name in operations.__all__:
        function = getattr(operations, name)
        if not inspect.isfunction(function):
            continue
        hints = inspect.get_annotations(function, eval_str=True)
        if several := {key for key, hint in hints.items() if takes_several_texts(hint)}:
            functions[name] = several
    assert functions == FUNCTIONS


def test_single_path_names_a_set_and_is_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "my-jobs"
    folder.mkdir()
    words = {"repository": ("github.com/team/repo", str(tmp_path))}
    assert operations.job_set("my-jobs", **words) == operations.job_set(["my-jobs"], **words)
    (tmp_path / "out").mkdir()
    compilation = etcompile.compile(training_job("bert"))
    plans = [
        operations.compared(compilation, "out", paths, Options(), targets=targets)
        for paths, targets in (
            ("my-jobs", "Pod/bert-launcher"),
            (["my-jobs"], ["Pod/bert-launcher"]),
        )
    ]
    assert plans[0] == plans[1]
    assert "create" in {step.action for step in plans[0].steps}


def test_field_of_settings_passed_to_options_is_named():
    for name in Settings.__struct_fields__:
        with pytest.raises(
            TypeError, match=rf"'{name}' is a field of Settings: Options\(settings="
        ):
            Options(**{name: "volcano"})
    with pytest.raises(TypeError, match="gangs"):
        Options(gangs="volcano")


@pytest.mark.parametrize("module", [etcompile, operations], ids=["etcompile", "operations"])
def test_dir_lists_every_public_name(module):
    assert set(module.__all__) <= set(dir(module))
    assert all(hasattr(module, name) for name in dir(module))
