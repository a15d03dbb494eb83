"""Makes the search list first what a name is about: an option, a code, an annotation, a setting.

Sphinx's search puts entries of its index before pages that contain the words. Options of commands
are entries already; here the others become entries, and get an anchor that can be linked.
"""

import itertools
import re
from collections.abc import Iterator
from typing import TypeGuard

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

_LISTS = ("annotations", "configuration")
"""Pages that list names: in the first column of tables, and at the beginning of items."""
_CODE = re.compile(r"ET\d{4}")


def index_names(app: Sphinx, document: nodes.document) -> None:
    """Add entries to the index as main ones, which the search lists first."""
    for section in document.findall(nodes.section):
        title = section.next_node(nodes.title)
        if title is not None and _CODE.fullmatch(name := title.astext()):
            section.insert(
                1, addnodes.index(entries=[("single", name, section["ids"][0], "", None)])
            )
    if app.env.current_document.docname in _LISTS:
        for place, literals in named_places(document):
            for literal in literals:
                anchor = nodes.make_id(literal.astext())
                if anchor and anchor not in document.ids:
                    document.ids[anchor] = place
                    place["ids"].append(anchor)
                    entry = ("single", literal.astext(), anchor, "", None)
                    place.append(addnodes.index(entries=[entry]))
    for index in document.findall(addnodes.index):
        index["entries"] = [(*entry[:3], "main", *entry[4:]) for entry in index["entries"]]


def named_places(document: nodes.document) -> Iterator[tuple[nodes.Element, list[nodes.literal]]]:
    """Yield the cells and items that begin with names, with these names."""
    for row in document.findall(nodes.row):
        if isinstance(row.parent, nodes.tbody):
            yield row[0], list(row[0].findall(nodes.literal))
    for item in document.findall(nodes.list_item):
        first = item[0].children if isinstance(item[0], nodes.paragraph) else []
        begin = itertools.takewhile(lambda node: node.astext() == ", " or is_code(node), first)
        yield item, [node for node in begin if is_code(node)]


def is_code(node: nodes.Node) -> TypeGuard[nodes.literal]:
    """Whether a node is code within a text."""
    return isinstance(node, nodes.literal)
