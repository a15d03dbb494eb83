"""An archive to an OCI image layout: the folder that registry tools push as it is.

One layer of the plain type, which Argo CD takes and Flux too, and the media type of configuration
by which Flux knows its artifacts (reference/gitops.md 6.5).
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from etcompile.integrations.bundle.gzip import gzipped

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = "application/vnd.cncf.flux.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

_EPOCH = "1970-01-01T00:00:00Z"
"""A time of its own would make another artifact of the same files."""


def oci_layout(archive: bytes, *, source: str | None, revision: str | None) -> dict[str, bytes]:
    """The files of an image layout with one image, of one layer.

    Args:
        archive: A tar archive, not compressed.
        source: Where its sources are: a URL.
        revision: Which revision of them: `main@sha1:...`.

    Returns:
        Contents by path, relative, with `/`.
    """
    annotations = {"org.opencontainers.image.created": _EPOCH}
    if source:
        annotations["org.opencontainers.image.source"] = source
    if revision:
        annotations["org.opencontainers.image.revision"] = revision
    blobs: dict[str, bytes] = {}
    layer = _blob(blobs, gzipped(archive), _LAYER)
    config = {
        "architecture": "",
        "config": {},
        "created": _EPOCH,
        "os": "",
        "rootfs": {"diff_ids": [_digest(archive)], "type": "layers"},
    }
    manifest = {
        "annotations": annotations,
        "config": _blob(blobs, _json(config), _CONFIG),
        "layers": [layer],
        "mediaType": _MANIFEST,
        "schemaVersion": 2,
    }
    found = _blob(blobs, _json(manifest), _MANIFEST)
    index = {"manifests": [found], "mediaType": _INDEX, "schemaVersion": 2}
    return {
        **blobs,
        "index.json": _json(index),
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
    }


def _blob(blobs: dict[str, bytes], content: bytes, media_type: str) -> dict[str, Any]:
    """Adds a blob; its descriptor."""
    digest = _digest(content)
    blobs[f"blobs/{digest.replace(':', '/')}"] = content
    return {"digest": digest, "mediaType": media_type, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
