"""Makes the search list first what a name is about: an option, a code, an annotation, a setting.

Sphinx's search puts entries of its index before pages that contain the words. Options of commands
are entries already; here the others become entries, and get an anchor that can be linked.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

_TABLES = ("annotations", "configuration")
"""Pages whose tables list names in their first column."""
_CODE = re.compile(r"ET\d{4}")


def index_names(app: Sphinx, document: nodes.document) -> None:
    """Adds entries to the index, and makes all of them main ones, which the search lists first."""
    for section in document.findall(nodes.section):
        title = section.next_node(nodes.title)
        if title is not None and _CODE.fullmatch(name := title.astext()):
            section.insert(
                1, addnodes.index(entries=[("single", name, section["ids"][0], "", None)])
            )
    rows = document.findall(nodes.row) if app.env.current_document.docname in _TABLES else ()
    for row in rows:
        if not isinstance(row.parent, nodes.tbody):
            continue
        for literal in list(row[0].findall(nodes.literal)):
            anchor = nodes.make_id(literal.astext())
            if anchor and anchor not in document.ids:
                document.ids[anchor] = row[0]
                row[0]["ids"].append(anchor)
                entry = ("single", literal.astext(), anchor, "", None)
                row[0].append(addnodes.index(entries=[entry]))
    for index in document.findall(addnodes.index):
        index["entries"] = [(*entry[:3], "main", *entry[4:]) for entry in index["entries"]]
