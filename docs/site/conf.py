"""What Sphinx is told about the site; `build.py` beside it calls Sphinx."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

import etcompile
from etcompile.diagnostics import RULES
from etcompile.diagnostics.rule_text import page_of

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

import names
import pages
import tables

project = "etcompile"
author = "The etcompile authors"
project_copyright = author
version = release = etcompile.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "index"
templates_path = [str(_HERE / "templates")]
highlight_language = "text"
smartquotes = False  # they make a dash of the two hyphens of an option

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 60
napoleon_numpy_docstring = False
toc_object_entries = False

copybutton_selector = "div.highlight-sh pre, div.highlight-yaml pre, div.highlight-python pre"

html_theme = "furo"
html_title = f"etcompile {version}"
html_favicon = str(_HERE / "static" / "icon.svg")
html_static_path = [str(_HERE / "static")]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_sidebars = {
    "**": [
        *("sidebar/brand.html", "repository.html", "sidebar/search.html"),
        *("sidebar/scroll-start.html", "sidebar/navigation.html", "sidebar/scroll-end.html"),
    ]
}
html_context = {"repository": pages.REPOSITORY}
html_search_scorer = str(_HERE / "scorer.js")
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_show_sourcelink = False
html_show_sphinx = False

_CODE = re.compile(r"\bET\d{4}\b")
_OPTION = re.compile(r"--[\w-]{1,25}")
_SIGNATURE = re.compile(r"<dl>\s*((?:<dd>.*?</dd>\s*)+)</dl>", re.DOTALL)


class Hyphens(SphinxPostTransform):
    """Sets hyphens: a dash before the text of an argument, and no end of a line in an option."""

    default_priority = 900

    def run(self, **_: Any) -> None:
        """Replace the two hyphens that Sphinx inserts, and mark options."""
        for text in list(self.document.findall(nodes.Text)):
            if text == " -- ":
                text.parent.replace(text, nodes.Text(" \N{EN DASH} "))
        for literal in self.document.findall(nodes.literal):
            if _OPTION.fullmatch(literal.astext()):
                literal["classes"].append("unbroken")


class StackedTables(SphinxPostTransform):
    """Prepares wide tables for a telephone."""

    default_priority = 900

    def run(self, **_: Any) -> None:
        """Labels the cells of tables."""
        for table in self.document.findall(nodes.table):
            tables.label_cells(table)


class LinkedCodes(SphinxPostTransform):
    """Makes the code of a diagnostic in a text a link to what is behind it."""

    default_priority = 900

    def run(self, **_: Any) -> None:
        """Link the codes in texts."""
        for text in list(self.document.findall(nodes.Text)):
            place: nodes.Element = text.parent
            code = text
            if isinstance(place, nodes.literal) and _CODE.fullmatch(text.astext()):
                code, place = place, place.parent
            if _CODE.search(text.astext()) and _may_link(place):
                place.replace(code, list(self._parts(code)))

    def _parts(self, node: nodes.Node) -> Iterator[nodes.Node]:
        if isinstance(node, nodes.literal):
            yield self._link(node.astext(), node.deepcopy())
            return
        text, end = node.astext(), 0
        for found in _CODE.finditer(text):
            if found[0] in RULES:
                yield nodes.Text(text[end : found.start()])
                yield self._link(found[0], nodes.Text(found[0]))
                end = found.end()
        yield nodes.Text(text[end:])

    def _link(self, code: str, shown: nodes.Node) -> nodes.Node:
        if code not in RULES:
            return shown
        builder = self.app.builder
        target = f"diagnostics/{page_of(code).removesuffix('.md')}"
        page = builder.get_relative_uri(self.env.current_document.docname, target)
        return nodes.reference("", "", shown, internal=True, refuri=f"{page}#{code.lower()}")


def _may_link(place: nodes.Element) -> bool:
    """Whether a link may stand here: not in another, in a heading or in code."""
    inside: nodes.Element | None = place
    while inside is not None:
        if isinstance(inside, nodes.reference | nodes.title | nodes.literal | nodes.literal_block):
            return False
        inside = inside.parent
    return True


def readable_signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str, returned: str
) -> tuple[str, str] | None:
    """Make all defaults of a signature parsable, so that its types are shortened and linked."""
    del app, what, name, value, options
    return (re.sub(r"<[^<>]*>", "...", signature), returned) if signature else None


def accessible_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: nodes.document | None
) -> None:
    """Corrects what a screen reader would stumble over in what Sphinx and the theme write.

    The captions of the navigation call themselves headings of no level, and a signature of several
    lines is a list of definitions without anything that is defined.
    """
    del app, page, template, tree
    tree_of_pages = "furo_navigation_tree"
    context[tree_of_pages] = context[tree_of_pages].replace(' role="heading"', "")
    if "body" in context:
        context["body"] = _SIGNATURE.sub(
            lambda found: (
                '<span class="sig-lines">'
                + found[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
                + "</span>"
            ),
            context["body"],
        )


def setup(app: Sphinx) -> None:
    """Add the extensions of this site."""
    app.set_translator("dirhtml", tables.Translator)
    app.connect("doctree-read", names.index_names)
    app.connect("html-page-context", accessible_page, priority=900)  # behind the theme
    app.add_post_transform(Hyphens)
    app.add_post_transform(StackedTables)
    app.add_post_transform(LinkedCodes)
    app.connect("autodoc-process-signature", readable_signature)
