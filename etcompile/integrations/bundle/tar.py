"""Files to a tar archive that says nothing but their names and contents.

Sorted by name, no times, no owners, mode 0644 (reference/gitops.md 6.5). Folders have no entries of
their own: what unpacks it makes them.
"""

import io
import tarfile
from collections.abc import Mapping


def tar(files: Mapping[str, str]) -> bytes:
    """The archive.

    Args:
        files: Texts by path, relative, with `/`.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, text in sorted(files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
