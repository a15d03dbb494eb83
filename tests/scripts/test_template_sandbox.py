"""Templates of the user's run in Jinja2's sandbox, and end."""

import resource
import shutil
import sys
from pathlib import Path

import pytest

import etcompile
from etcompile import data
from etcompile.compiler.choices import Options
from specs import training_job

TEMPLATE = "discover_hosts.sh.j2"
EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/*/*/"))

HOSTILE = {
    "attributes of Python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals of a function": "{{ range.__globals__ }}",
    "attributes by a filter": "{{ ''|attr('__class__') }}{{ ''|map(attribute='__class__')|list }}",
    "the loader": "{{ self._TemplateReference__context.environment.loader }}",
    "a file by its name": "{% include '/etc/passwd' %}",
    "a file further up": "{% include '../secret' %}",
    "formats that reach in": "{{ '{0.__class__}'.format(seed) }}",
}

ENDLESS = {
    "a long range": "{% for i in range(10 ** 9) %}x{% endfor %}",
    "loops in loops": (
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    ),
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a template that includes itself": "{% include 'discover_hosts.sh.j2' %}",
    "a long text": "{{ 'x' * 10 ** 7 }}",
    "a text that does not fit": "{{ 'x' * 10 ** 12 }}",
    "a wide column": "{{ 'x'|center(10 ** 12) }}",
    "a wide format": "{{ '%0999999999999d'|format(1) }}",
    "texts that double": (
        "{% set n = namespace(s='xxxxxxxxxxxxxxxx') %}"
        "{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}"
    ),
    "a power": "{{ (10 ** 10) ** (10 ** 10) }}",
    "a filter that loops": "{{ 'x'|slice(10 ** 12)|list|length }}",
    "many words": "{{ lipsum(n=10 ** 9) }}",
}


def rendered(folder: Path, text: str) -> etcompile.Compilation:
    folder.mkdir(exist_ok=True)
    (folder / TEMPLATE).write_text(text)
    return etcompile.compile(training_job("bert"), Options(templates=folder))


@pytest.mark.parametrize("text", [*HOSTILE.values(), *ENDLESS.values()], ids=[*HOSTILE, *ENDLESS])
def test_a_template_does_not_get_out_and_ends(tmp_path, text):
    (tmp_path / "secret").write_text("hunter2")
    limits, trace = resource.getrlimit(resource.RLIMIT_AS), sys.gettrace()
    done = rendered(tmp_path / "own", text)
    assert [one.code for one in done.diagnostics] == ["ET5004"]
    assert len(done.diagnostics[0].message) < 1000
    assert done.diagnostics[0].message.startswith(f"template {TEMPLATE}: ")
    assert not done.groups
    assert (resource.getrlimit(resource.RLIMIT_AS), sys.gettrace()) == (limits, trace)


def test_template_cannot_modify_its_variables(tmp_path):
    done = rendered(tmp_path, "{% set _ = seed.append('evil.example.com') %}{{ seed }}")
    assert not done.ok


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: "/".join(folder.parts[-2:]))
def test_shipped_templates_render_identically_in_the_sandbox(tmp_path, folder):
    for file in data.folder("templates").glob("*.j2"):
        shutil.copy(file, tmp_path)
    plain = etcompile.compile(folder, Options(without_keys=True))
    sandboxed = etcompile.compile(folder, Options(templates=tmp_path, without_keys=True))
    assert sandboxed.objects == plain.objects
    assert sandboxed.diagnostics == plain.diagnostics
