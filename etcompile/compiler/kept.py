"""The last output to the encrypted key pairs in it.

What is encrypted anew is another text every time, and the pair inside would be another one too. So
an output folder is its own memory: what stands there is kept.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from etcompile.diagnostics import has_errors
from etcompile.k8s.objects import Object
from etcompile.load import Document, access, parse

_SIGNS = ("encryptedData:", "ENC[AES256_GCM,")
"""What the text of each file holds that has an encrypted key pair."""


class Kept(Struct, frozen=True):
    """The encrypted Secrets of an output folder.

    Args:
        documents: SealedSecrets, and Secrets for SOPS, by the namespace and the name of what they
            become.
        damaged: The files that hold such but cannot be read.
    """

    documents: Mapping[tuple[str, str], Document]
    damaged: tuple[str, ...] = ()

    def of(self, value: Object) -> Document | None:
        """The document in which an object's Secret stands so far, of whichever kind."""
        return self.documents.get(_secret(value))


def kept(folder: Path) -> Kept:
    """The encrypted Secrets of an output folder; none if it cannot be looked at."""
    documents: dict[tuple[str, str], Document] = {}
    damaged = []
    for file, text in _files(folder):
        loaded = parse(text, file=str(file))
        if has_errors(loaded.diagnostics):
            damaged.append(str(file))
            continue
        for document in loaded.documents:
            if document.name and (
                document.kind == "SealedSecret" or isinstance(document.data.get("sops"), dict)
            ):
                documents.setdefault(_secret(document.data), document)
    return Kept(documents, tuple(damaged))


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of ours that may hold an encrypted Secret."""
    from etcompile.emit.output_state import output_state  # noqa: PLC0415 - needs a folder to be of use

    try:
        found = output_state(folder) if folder.is_dir() else None
    except OSError:
        return  # told where the folder is written
    for path in sorted(found.ours | found.headed) if found else ():
        if path.suffix != ".yaml":
            continue
        try:
            text = access.content(str(folder / path)).decode().replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError):
            continue
        if any(sign in text for sign in _SIGNS):
            yield folder / path, text


def _secret(value: Object) -> tuple[str, str]:
    """The namespace and the name of the Secret that an object is, or becomes."""
    metadata = value["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
