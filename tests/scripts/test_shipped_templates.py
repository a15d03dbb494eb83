"""The templates translated to Python say what Jinja2 says, wherever they come from."""

import itertools
import runpy
import shutil
import sys
import types

import jinja2
import jinja2.meta
import pytest

from etcompile import data
from etcompile.backend import TemplateError, Texts, jinja, texts
from etcompile.load import Limits
from etcompile.load.access import TemplateFolder

FOLDER = data.folder("templates")
GENERATOR = FOLDER / "generate.py"


@pytest.fixture(scope="module")
def shipped():
    """What an installation makes of the templates."""
    module = types.ModuleType("shipped")
    exec(runpy.run_path(str(GENERATOR))["generated"](), module.__dict__)
    return module


# each variable once as it is off, and twice as it is on
VALUES = {
    "pods": ([], [("a-worker", "a-run-worker")], [("a", "b"), ("c", "d")]),
    "renamed": ([], [("key", "id_rsa", "0600")], [("key", "a", "0600"), ("pub", "b", "0644")]),
    "config": ([], ["Port 22"], ["Port 22", "User it's"]),
    "port": (None, 22, 2222),
    "ssh_port": (None, 22),
    "ssh": (False, True),
    "kubexec": ("", "/etc/mpi/kubexec.sh"),
    "container": (None, "trainer"),
}


def _rooms(name):
    """Every combination of values for a template's variables."""
    tree = jinja.environment(FOLDER).parse((FOLDER / name).read_text())
    names = jinja2.meta.find_undeclared_variables(tree)
    for part in jinja2.meta.find_referenced_templates(tree):
        template = jinja.environment(FOLDER).parse((FOLDER / part).read_text())
        names |= jinja2.meta.find_undeclared_variables(template)
    rows = [VALUES.get(n, (f"/a/{n} 'of' \"it\" \\n",)) for n in sorted(names)]
    return [dict(zip(sorted(names), row, strict=True)) for row in itertools.product(*rows)]


@pytest.mark.parametrize("name", sorted(file.name for file in FOLDER.glob("*.j2")))
def test_a_translated_template_renders_as_jinja2_does(name, shipped):
    for values in _rooms(name):
        expected = jinja.render(jinja.environment(FOLDER), name, values)
        assert "".join(shipped.TEMPLATES[name](values)) == expected


def test_a_process_that_imports_them_meanwhile_has_them_whole(tmp_path):
    """An installation of a checkout writes them where programs of that checkout run."""
    backend = tmp_path / "etcompile" / "backend"
    backend.mkdir(parents=True)
    for source in (FOLDER, FOLDER.parent / "etcompile" / "backend" / "jinja.py"):
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / "templates" if source.is_dir() else backend)
    write = runpy.run_path(str(tmp_path / "templates" / "generate.py"))["write"]
    module = backend / "shipped.py"
    write()
    first = module.stat().st_ino
    whole = module.read_text()
    write()
    assert module.stat().st_ino == first, "it is what it was, and stays"
    module.write_text("an older version")
    with module.open() as reader:
        write()
        assert reader.read() == "an older version"
    assert module.read_text() == whole
    assert {path.name for path in backend.iterdir()} <= {"jinja.py", "shipped.py", "__pycache__"}


def test_a_translation_counts_while_it_is_of_the_templates_that_are_there(
    shipped, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "etcompile.backend.shipped", shipped)
    shipped.TEMPLATES["run-once.sh.j2"] = lambda values: iter(["translated"])
    try:
        assert Texts().render("run-once.sh") == "translated"
        for file in FOLDER.glob("*.j2"):
            (tmp_path / file.name).write_text(file.read_text())
        (tmp_path / "another.sh.j2").write_text("another")
        monkeypatch.setattr(data, "folder", lambda name: tmp_path)
        texts.shipped_names.cache_clear()
        assert Texts().render("another.sh") == "another"
    finally:
        texts.shipped_names.cache_clear()


def test_templates_render_where_nothing_was_installed(monkeypatch):
    values = {"status_done": "/x", "spec_hash_file": "/y"}
    expected = Texts().render("run-once.sh", **values)
    monkeypatch.setitem(sys.modules, "etcompile.backend.shipped", None)
    assert Texts().render("run-once.sh", **values) == expected


def test_an_edited_template_counts_before_it_is_translated(tmp_path, monkeypatch):
    for file in FOLDER.glob("*.j2"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "run-once.sh.j2").write_text("#!/bin/sh\necho {{ status_done }}\n")
    monkeypatch.setattr(data, "folder", lambda name: tmp_path)
    assert Texts().render("run-once.sh", status_done="/x") == "#!/bin/sh\necho /x\n"


def test_a_missing_value_is_an_error_both_ways(tmp_path):
    for folder in (None, TemplateFolder(str(tmp_path), Limits())):
        with pytest.raises(TemplateError) as caught:
            Texts(folder).render("discover_hosts.sh", live="/x")
        assert caught.value.problem == "'seed' is undefined"


def test_a_construct_without_a_translation_is_refused():
    script = runpy.run_path(str(GENERATOR))
    tree = jinja.environment(FOLDER).parse("{{ a | upper }}")
    with pytest.raises(script["UntranslatableError"]):
        list(script["_Writer"]().body(tree.body, 1))
