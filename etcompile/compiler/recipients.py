"""A secret mode to who can read what it encrypts, and how an object holds that.

`etcompile.encryption` knows texts and no objects. Here is which field holds a ciphertext, and how a
later run knows for whom it is.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.encryption import RecipientError, sealed, sops
from etcompile.k8s.objects import Object
from etcompile.k8s.path import mapping_at
from etcompile.model import SecretMode
from etcompile.model.protocol import KEY_PAIR, SEALED_FOR

_WIDE = "sealedsecrets.bitnami.com/"
_SHOWN = 19
"""Characters of a digest that a person needs to tell it from another: `sha256:` and twelve."""


class Recipient(Struct, frozen=True):
    """Who can read what a run encrypts.

    Args:
        mode: The mode that names it.
        certificate: That of a controller of Sealed Secrets; None for SOPS.
        names: The age recipients, whose identities somebody holds.
    """

    mode: SecretMode
    certificate: sealed.Certificate | None
    names: tuple[str, ...] = ()

    def problem(
        self, value: Object, standing: Object, keys: AbstractSet[str]
    ) -> tuple[str, str] | None:
        """Why the ciphertext of the last output cannot stay, and how to stay with it.

        Args:
            value: The object as it is to be written.
            standing: The one of the last output.
            keys: The keys of the Secret that it is to become.
        """
        if standing["kind"] != value["kind"]:
            modes = {"SealedSecret": "sealed", "Secret": "sops"}
            was, now = (modes.get(secret["kind"], secret["kind"]) for secret in (standing, value))
            return f"its key pair is encrypted for {was}, not for {now}", f"stay with {was}"
        before, after = _annotations(standing), _annotations(value)
        data: object
        if self.certificate is not None:
            digest = self.certificate.digest
            if before.get(SEALED_FOR) != digest:
                was = str(before.get(SEALED_FOR, "another key"))[:_SHOWN]
                text = f"its key pair is sealed for {was}, not for {digest[:_SHOWN]}"
                return text, "pass the certificate that it was sealed with"
            scope = _scope(before)
            if scope != _scope(after):
                text = f"its key pair is sealed {scope}, not {_scope(after)}"
                return text, f"pass --secret sealed:{scope}:{self.mode.file}"
            data = mapping_at(standing, ("spec", "encryptedData"))
        else:
            names = sops.recipients(standing.get("sops") or {})
            if names != self.names:
                was, now = (" and ".join(listed) or "nobody" for listed in (names, self.names))
                text = f"its key pair is encrypted for {was}, not for {now}"
                return text, f"pass --secret sops:{','.join(names)}"
            data = standing.get("data")
        restore = "restore the file from Git"
        if before.get(KEY_PAIR) != after[KEY_PAIR]:
            return "it was encrypted with other keys or another ssh configuration", restore
        whole = isinstance(data, Mapping) and keys == data.keys() and all(data.values())
        return None if whole else ("its ciphertext is not whole", restore)

    def with_ciphertext(self, value: Object, standing: Object) -> Object:
        """The object with the ciphertext of the last output."""
        if self.certificate is None:
            return {**value, "data": standing["data"], "sops": standing["sops"]}
        return _sealed(value, standing["spec"]["encryptedData"], self.certificate)

    def encrypted(self, value: Object, texts: Mapping[str, bytes]) -> Object:
        """The object with a new ciphertext.

        Raises:
            RecipientError: nothing can be encrypted for it.
        """
        if self.certificate is None:
            result = sops.encrypted(texts, self.names)
            return {**value, "data": dict(result.data), "sops": dict(result.metadata)}
        metadata = value["metadata"]
        scope, namespace = _scope(_annotations(value)), metadata.get("namespace", "")
        label = sealed.label(scope, namespace, metadata["name"])
        data = sealed.encrypted(texts, self.certificate, label)
        return _sealed(value, data, self.certificate)


def recipient(mode: SecretMode, content: bytes) -> tuple[Recipient | None, Sequence[Diagnostic]]:
    """Who can read what a mode encrypts, and what is wrong with it."""
    try:
        if mode.kind == "sealed":
            return Recipient(mode, sealed.certificate(content)), ()
        names = tuple(sorted({part.strip() for part in (mode.name or "").split(",")}))
        for name in names:
            sops.age_recipient(name)
        return Recipient(mode, None, names), ()
    except RecipientError as error:
        return None, [refused(mode, error)]


def refused(mode: SecretMode, error: RecipientError) -> Diagnostic:
    """What to say of a recipient that cannot be one."""
    # Not the names of recipients: somebody may have written an identity there.
    option = f"--secret {mode if mode.kind == 'sealed' else mode.kind}"
    return diagnose(codes.SECRET_SOURCE, None, option=option, problem=str(error))


def _sealed(value: Object, data: Mapping[str, str], certificate: sealed.Certificate) -> Object:
    annotations = {**_annotations(value), SEALED_FOR: certificate.digest}
    return {
        **value,
        "metadata": {**value["metadata"], "annotations": annotations},
        "spec": {**value["spec"], "encryptedData": dict(data)},
    }


def _scope(annotations: Mapping[str, Any]) -> str:
    # The controller looks at the widest first.
    wide = ("cluster-wide", "namespace-wide")
    return next((scope for scope in wide if annotations.get(_WIDE + scope) == "true"), "strict")


def _annotations(value: Object) -> Mapping[str, Any]:
    return mapping_at(value, ("metadata", "annotations"))
