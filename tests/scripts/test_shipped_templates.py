"""The templates translated to Python say what Jinja2 says, and were made from today's files."""

import itertools
import runpy

import jinja2
import jinja2.meta
import pytest

from etcompile import data
from etcompile.backend import TemplateError, Texts, jinja, shipped
from etcompile.load import Limits
from etcompile.load.templates import TemplateFolder

FOLDER = data.folder("templates")
GENERATOR = FOLDER / "generate.py"

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
        found = jinja.environment(FOLDER).parse((FOLDER / part).read_text())
        names |= jinja2.meta.find_undeclared_variables(found)
    rows = [VALUES.get(n, (f"/a/{n} 'of' \"it\" \\n",)) for n in sorted(names)]
    return [dict(zip(sorted(names), row, strict=True)) for row in itertools.product(*rows)]


@pytest.mark.parametrize("name", sorted(file.name for file in FOLDER.glob("*.j2")))
def test_a_translated_template_renders_as_jinja2_does(name):
    for values in _rooms(name):
        expected = jinja.render(jinja.environment(FOLDER), name, values)
        assert "".join(shipped.TEMPLATES[name](values)) == expected


def test_the_translation_is_current():
    generated = runpy.run_path(str(GENERATOR))["generated"]()
    assert (FOLDER.parent / "etcompile/backend/shipped.py").read_text() == generated, (
        "run python templates/generate.py"
    )


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
