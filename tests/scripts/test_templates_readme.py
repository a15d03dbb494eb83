"""templates/README.md says which variables a template has; here they are counted."""

import re

import jinja2
import jinja2.meta
import pytest

from etcompile import data

FOLDER = data.folder("templates")
TEMPLATES = sorted(path.name for path in FOLDER.glob("*.j2"))


def _variables(name):
    tree = jinja2.Environment(autoescape=True).parse((FOLDER / name).read_text())
    names = jinja2.meta.find_undeclared_variables(tree)
    for part in jinja2.meta.find_referenced_templates(tree):
        names |= _variables(part)
    return names


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_readme_names_every_variable(name):
    table = (FOLDER / "README.md").read_text()
    row = next(line for line in table.splitlines() if line.startswith(f"| `{name}`"))
    assert set(re.findall(r"`(\w+)`", row.split("|")[4])) == _variables(name)


def test_the_readme_lists_every_template():
    table = (FOLDER / "README.md").read_text()
    assert sorted(re.findall(r"^\| `(\S+\.j2)`", table, re.MULTILINE)) == TEMPLATES
