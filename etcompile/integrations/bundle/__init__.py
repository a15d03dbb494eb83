"""Files to one archive, and to an image that holds it: what registries and Flux and Argo CD pull.

The same files are the same bytes: who pulls by digest sees a new one only where something changed.
Nothing is pushed here; other tools do that (docs/bundle.md).
"""

from collections.abc import Mapping

from etcompile.integrations.bundle.gzip import gzipped
from etcompile.integrations.bundle.oci import oci_layout
from etcompile.integrations.bundle.tar import tar

__all__ = ["bundled", "gzipped", "oci_layout", "tar"]


def bundled(files: Mapping[str, str]) -> bytes:
    """The files as a `.tar.gz`.

    Args:
        files: Texts by path, relative, with `/`.
    """
    return gzipped(tar(files))
