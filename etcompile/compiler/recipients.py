"""A secret mode to who can read what it encrypts, and how an object holds that.

`etcompile.encryption` knows texts and no objects. Here is which field holds a ciphertext, and how a
later run knows for whom it is.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

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


class Problem(Struct, frozen=True):
    """Why the ciphertext of the last output cannot stay.

    Args:
        text: What would change.
        stay: How to stay with the last one.
    """

    text: str
    stay: str


class Recipient(Protocol):
    """Who can read what a run encrypts."""

    @property
    def mode(self) -> SecretMode:
        """The mode that names it."""

    def problem(self, value: Object, standing: Object, keys: AbstractSet[str]) -> Problem | None:
        """Why an object of the last output does not do for this one; None if it does.

        Args:
            value: The object as it is to be written.
            standing: The one of the last output.
            keys: The keys of the Secret that it is to become.
        """

    def with_ciphertext(self, value: Object, standing: Object) -> Object:
        """The object with the ciphertext of the last output."""

    def encrypted(self, value: Object, texts: Mapping[str, bytes]) -> Object:
        """The object with a new ciphertext.

        Raises:
            RecipientError: nothing can be encrypted for it.
        """


def recipient(mode: SecretMode, content: bytes) -> tuple[Recipient | None, Sequence[Diagnostic]]:
    """Who can read what a mode encrypts, and what is wrong with it.

    Args:
        mode: A mode that encrypts.
        content: The bytes of its file, if it has one.
    """
    try:
        if mode.kind == "sealed":
            return _Controller(mode, sealed.certificate(content)), ()
        names = tuple(sorted({part.strip() for part in (mode.name or "").split(",")}))
        for name in names:
            sops.age_recipient(name)
        return _Owners(mode, names), ()
    except RecipientError as error:
        return None, [refused(mode, error)]


def refused(mode: SecretMode, error: RecipientError) -> Diagnostic:
    """What to say of a recipient that cannot be one."""
    # Not the names of recipients: somebody may have written an identity there.
    option = f"--secret {mode if mode.kind == 'sealed' else mode.kind}"
    return diagnose(codes.SECRET_SOURCE, None, option=option, problem=str(error))


class _Controller(Struct, frozen=True):
    """A controller of Sealed Secrets."""

    mode: SecretMode
    certificate: sealed.Certificate

    def problem(self, value: Object, standing: Object, keys: AbstractSet[str]) -> Problem | None:
        if other := _of_another_kind(value, standing):
            return other
        before, now = _annotations(standing), _annotations(value)
        if before.get(SEALED_FOR) != self.certificate.digest:
            was = str(before.get(SEALED_FOR, "another key"))[:_SHOWN]
            text = f"its key pair is sealed for {was}, not for {self.certificate.digest[:_SHOWN]}"
            return Problem(text, "pass the certificate that it was sealed with")
        if _scope(before) != _scope(now):
            text = f"its key pair is sealed {_scope(before)}, not {_scope(now)}"
            return Problem(text, f"pass --secret sealed:{_scope(before)}:{self.mode.file}")
        spec = standing.get("spec")
        data = spec.get("encryptedData") if isinstance(spec, Mapping) else None
        return _of_other_keys(value, standing, keys, data)

    def with_ciphertext(self, value: Object, standing: Object) -> Object:
        return self._with(value, standing["spec"]["encryptedData"])

    def encrypted(self, value: Object, texts: Mapping[str, bytes]) -> Object:
        metadata = value["metadata"]
        scope, namespace = _scope(_annotations(value)), metadata.get("namespace", "")
        label = sealed.label(scope, namespace, metadata["name"])
        return self._with(value, sealed.encrypted(texts, self.certificate, label))

    def _with(self, value: Object, data: Mapping[str, str]) -> Object:
        annotations = {**_annotations(value), SEALED_FOR: self.certificate.digest}
        return {
            **value,
            "metadata": {**value["metadata"], "annotations": annotations},
            "spec": {**value["spec"], "encryptedData": dict(data)},
        }


class _Owners(Struct, frozen=True):
    """Who holds an age identity for one of the recipients."""

    mode: SecretMode
    names: tuple[str, ...]

    def problem(self, value: Object, standing: Object, keys: AbstractSet[str]) -> Problem | None:
        if other := _of_another_kind(value, standing):
            return other
        before = sops.recipients(standing.get("sops") or {})
        if before != self.names:
            was, now = (" and ".join(names) or "nobody" for names in (before, self.names))
            text = f"its key pair is encrypted for {was}, not for {now}"
            return Problem(text, f"pass --secret sops:{','.join(before)}")
        return _of_other_keys(value, standing, keys, standing.get("data"))

    def with_ciphertext(self, value: Object, standing: Object) -> Object:
        return {**value, "data": standing["data"], "sops": standing["sops"]}

    def encrypted(self, value: Object, texts: Mapping[str, bytes]) -> Object:
        result = sops.encrypted(texts, self.names)
        return {**value, "data": dict(result.data), "sops": dict(result.metadata)}


def _of_another_kind(value: Object, standing: Object) -> Problem | None:
    if standing["kind"] == value["kind"]:
        return None
    modes = {"SealedSecret": "sealed", "Secret": "sops"}
    was, now = (modes.get(secret["kind"], secret["kind"]) for secret in (standing, value))
    return Problem(f"its key pair is encrypted for {was}, not for {now}", f"stay with {was}")


def _of_other_keys(
    value: Object, standing: Object, keys: AbstractSet[str], data: object
) -> Problem | None:
    """A Secret that is to hold something else, or a ciphertext that is not whole."""
    restore = "restore the file from Git"
    if _annotations(standing).get(KEY_PAIR) != _annotations(value)[KEY_PAIR]:
        return Problem("it was encrypted with other keys or another ssh configuration", restore)
    whole = isinstance(data, Mapping) and keys == data.keys() and all(data.values())
    return None if whole else Problem("its ciphertext is not whole", restore)


def _scope(annotations: Mapping[str, Any]) -> str:
    # The controller looks at the widest first.
    wide = ("cluster-wide", "namespace-wide")
    return next((scope for scope in wide if annotations.get(_WIDE + scope) == "true"), "strict")


def _annotations(value: Object) -> Mapping[str, Any]:
    return mapping_at(value, ("metadata", "annotations"))
