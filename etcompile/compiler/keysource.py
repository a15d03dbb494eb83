"""Fill in key pairs and parameters of vaults that the backend leaves open.

An encrypted key pair comes from the last output, or else is generated. Encrypting again yields
another ciphertext every time, and the key pair would be another one too, so the output folder is
the memory. Parameters of a vault come from a file of the user, in which `$(job)`, `$(namespace)`
and the like differ from job to job.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct, structs

from etcompile.compiler.choices import Options
from etcompile.diagnostics import Diagnostic, Location, ValuePath, codes, diagnose, has_errors
from etcompile.diagnostics.message_text import with_texts
from etcompile.digest import sha256
from etcompile.emit.output_state import output_state
from etcompile.encryption import RecipientError, sealed, sops
from etcompile.k8s.objects import Object
from etcompile.k8s.path import mapping_at
from etcompile.load import Document, Limits, access, load, parse
from etcompile.model import Job, SecretMode
from etcompile.model.keypair import has_key_pair, key_pair, new_data
from etcompile.model.protocol import KEY_PAIR, SEALED_FOR

_PROVIDER = "SecretProviderClass"
_SIGNS = ("encryptedData:", "ENC[AES256_GCM,")
"""One of these is in the text of each file with an encrypted key pair."""
_VARIABLE = re.compile(r"\$\(([A-Za-z]+)\)")
_WIDE = "sealedsecrets.bitnami.com/"
_SHOWN = 19  # characters of a digest in messages: `sha256:` and twelve digits


class Recipient(Struct, frozen=True):
    """The reader of what a run encrypts: a certificate of Sealed Secrets, or age recipients."""

    mode: SecretMode
    certificate: sealed.Certificate | None
    names: tuple[str, ...] = ()

    def problem(
        self, value: Object, standing: Object, keys: AbstractSet[str]
    ) -> tuple[str, str] | None:
        """Return why the ciphertext of the last output (`standing`) cannot stay, and advice."""
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
                return text, f"pass --config secret=sealed:{scope}:{self.mode.file}"
            data = mapping_at(standing, ("spec", "encryptedData"))
        else:
            names = sops.recipients(standing.get("sops") or {})
            if names != self.names:
                was, now = (" and ".join(listed) or "nobody" for listed in (names, self.names))
                text = f"its key pair is encrypted for {was}, not for {now}"
                return text, f"pass --config secret=sops:{','.join(names)}"
            data = standing.get("data")
        restore = "restore the file from Git"
        if before.get(KEY_PAIR) != after[KEY_PAIR]:
            return "it was encrypted with other keys or another ssh configuration", restore
        whole = isinstance(data, Mapping) and keys == data.keys() and all(data.values())
        return None if whole else ("its ciphertext is not whole", restore)

    def with_ciphertext(self, value: Object, standing: Object) -> Object:
        if self.certificate is None:
            return {**value, "data": standing["data"], "sops": standing["sops"]}
        return _sealed(value, standing["spec"]["encryptedData"], self.certificate)

    def encrypted(self, value: Object, texts: Mapping[str, bytes]) -> Object:
        if self.certificate is None:
            result = sops.encrypted(texts, self.names)
            return {**value, "data": dict(result.data), "sops": dict(result.metadata)}
        metadata = value["metadata"]
        scope, namespace = _scope(_annotations(value)), metadata.get("namespace", "")
        label = sealed.label(scope, namespace, metadata["name"])
        data = sealed.encrypted(texts, self.certificate, label)
        return _sealed(value, data, self.certificate)


class KeySource(Struct, frozen=True):
    """The source of key pairs and parameters of a run.

    Args:
        recipient: The reader of encrypted key pairs; None if this run leaves them open.
        standing: The SealedSecrets, and Secrets for SOPS, of the output folder, by namespace and
            name of the resulting Secret; None if there is no folder.
        damaged: Files of the folder that hold such objects but cannot be read.
        pattern: The SecretProviderClass that becomes one for each job.
        inputs: The name and the SHA-256 of each file that was read.
    """

    recipient: Recipient | None = None
    standing: Mapping[tuple[str, str], Document] | None = None
    damaged: Sequence[str] = ()
    pattern: Document | None = None
    inputs: tuple[tuple[str, str], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def key_source(options: Options, place: Location | None = None) -> KeySource:
    """Read what fills in the objects of a run whose secret mode encrypts, or names a file."""
    mode = options.settings.secret
    if mode.kind == "csi":
        source = _pattern(mode.file or "", options.limits, place)
    else:
        reader, content, problems = _recipient(mode, options.limits, place)
        inputs = ((PurePath(mode.file).name, sha256(content)),) if mode.file else ()
        source = KeySource(inputs=inputs, diagnostics=problems)
        if reader is not None and not options.without_keys:
            folder = options.previous or options.output
            standing, damaged = _last_output(folder) if folder else (None, [])
            source = structs.replace(source, recipient=reader, standing=standing, damaged=damaged)
    located = (structs.replace(d, location=d.location or place) for d in source.diagnostics)
    return structs.replace(source, diagnostics=tuple(located))


def filled(
    objects: Sequence[Object], keys: KeySource, job: Job
) -> tuple[tuple[Object, ...], list[Diagnostic]]:
    whole: list[Object] = []
    problems: list[Diagnostic] = []
    for value in objects:
        result, refusals = value, list[Diagnostic]()
        if value["kind"] == _PROVIDER and keys.pattern and not value.get("spec"):
            result, refusals = _written(value, job, keys.pattern)
        is_secret = value["kind"] in ("SealedSecret", "Secret")
        if is_secret and keys.recipient and not value.get("data") and has_key_pair(value):
            result, refusals = _encrypted(value, job, keys.recipient, keys)
        whole.append(result)
        problems += refusals
    return tuple(whole), problems


def _last_output(folder: Path) -> tuple[dict[tuple[str, str], Document], list[str]]:
    documents: dict[tuple[str, str], Document] = {}
    damaged = []
    try:
        state = output_state(folder) if folder.is_dir() else None
    except OSError:
        state = None  # reported when the folder is written
    paths = state.ours | state.headed if state else ()
    for path in sorted(path for path in paths if path.suffix == ".yaml"):
        file = str(folder / path)
        try:
            text = access.content(file).decode().replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError):
            continue
        if not any(sign in text for sign in _SIGNS):
            continue
        loaded = parse(text, file=file)
        if has_errors(loaded.diagnostics):
            damaged.append(file)
            continue
        for document in loaded.documents:
            is_sops = isinstance(document.data.get("sops"), dict)
            if document.name and (document.kind == "SealedSecret" or is_sops):
                documents.setdefault(_secret(document.data), document)
    return documents, damaged


def _secret(value: Object) -> tuple[str, str]:
    """Return the namespace and the name of the Secret that results from an object."""
    metadata = value["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _encrypted(
    value: Object, job: Job, reader: Recipient, keys: KeySource
) -> tuple[Object, list[Diagnostic]]:
    if keys.standing is None or job.credentials is None:
        place = job.origin.locate("metadata", "name")
        facts = {"job": job.name, "kind": reader.mode.kind}
        return value, [diagnose(codes.ENCRYPTED_NEEDS_FOLDER, place, **facts)]
    what = f"{value['kind']} '{value['metadata']['name']}'"
    pair = key_pair(job.credentials)
    standing = keys.standing.get(_secret(value))
    if standing is None and keys.damaged:
        problem = f"its key pair may be in {', '.join(keys.damaged)}, which cannot be read"
        advice = "restore it from Git; of a merge conflict, take either side as it was"
        facts = {"what": what, "problem": problem, "advice": advice}
        return value, [diagnose(codes.KEY_PAIR_STAYS, None, **facts)]
    if standing is None:
        try:
            return reader.encrypted(value, new_data(pair, job.name)), []
        except RecipientError as error:
            return value, [_no_recipient(reader.mode, str(error))]
    if refusal := reader.problem(value, standing.data, pair.keys):
        run = f"annotation etcompile.dev/run: {'another ID' if job.run_id else 'ID'}"
        problem, stay = refusal
        advice = f"{stay}; or start a new run with its own key pair: {run}"
        facts = {"what": what, "problem": problem, "advice": advice}
        where = standing.locate(("metadata", "name"))
        return value, [diagnose(codes.KEY_PAIR_STAYS, where, **facts)]
    return reader.with_ciphertext(value, standing.data), []


def _recipient(
    mode: SecretMode, limits: Limits, place: Location | None
) -> tuple[Recipient | None, bytes, tuple[Diagnostic, ...]]:
    """Return the recipient, the content of the file that names it, and why there is none."""
    content = b""
    if mode.kind == "sops" and find_spec("pyrage") is None:
        facts = {"option": "--config secret=sops", "package": "pyrage", "extra": "sops"}
        return None, content, (diagnose(codes.MISSING_EXTRA, None, **facts),)
    try:
        if mode.file is not None:
            content = access.content(mode.file, limits.boundary, limits.file_bytes)
        if mode.kind == "sealed":
            return Recipient(mode, sealed.certificate(content)), content, ()
        names = tuple(sorted({part.strip() for part in (mode.name or "").split(",")}))
        for name in names:
            sops.age_recipient(name)
        return Recipient(mode, None, names), content, ()
    except access.OutsideError as error:
        where, root = place or Location(mode.file or ""), error.boundary.root
        return None, content, (diagnose(codes.OUTSIDE_THE_BOUNDARY, where, root=root),)
    except access.SpecialFileError:
        problem = "it is no file"
    except RecipientError as error:
        problem = str(error)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problem = f"the file cannot be read: {reason[:1].lower()}{reason[1:]}"
    return None, content, (_no_recipient(mode, problem),)


def _no_recipient(mode: SecretMode, problem: str) -> Diagnostic:
    # Do not print recipients: somebody may have written an identity there.
    option = f"--config secret={mode if mode.kind == 'sealed' else mode.kind}"
    return diagnose(codes.SECRET_SOURCE, None, option=option, problem=problem)


def _sealed(value: Object, data: Mapping[str, str], certificate: sealed.Certificate) -> Object:
    annotations = {**_annotations(value), SEALED_FOR: certificate.digest}
    return {
        **value,
        "metadata": {**value["metadata"], "annotations": annotations},
        "spec": {**value["spec"], "encryptedData": dict(data)},
    }


def _scope(annotations: Mapping[str, Any]) -> str:
    # The controller checks the widest first.
    wide = ("cluster-wide", "namespace-wide")
    return next((scope for scope in wide if annotations.get(_WIDE + scope) == "true"), "strict")


def _annotations(value: Object) -> Mapping[str, Any]:
    return mapping_at(value, ("metadata", "annotations"))


def _pattern(file: str, limits: Limits, place: Location | None) -> KeySource:
    """Load the SecretProviderClass in a file, which becomes one for each job."""
    loaded = load([file], limits=limits)
    documents, problems = loaded.documents, loaded.diagnostics
    inputs = tuple((entry.relative, entry.digest) for entry in documents if entry.digest)
    must = f"must hold one {_PROVIDER} and nothing else"
    if not has_errors(problems) and [each.kind for each in documents] == [_PROVIDER]:
        if mapping_at(documents[0].data, ("spec",)).get("provider"):
            return KeySource(pattern=documents[0], inputs=inputs, diagnostics=problems)
        problems = (_refused(documents[0], ("spec",), "its spec must name a provider"),)
    elif place is not None:
        # Print nothing of the file, because an overlay may name any file.
        text = f"'{file}' {must}; see etcompile check '{file}'"
        facts = {"option": "--config secret=csi", "problem": text}
        outside = (each for each in problems if each.code == codes.OUTSIDE_THE_BOUNDARY)
        refusal = next(outside, None) or diagnose(codes.SECRET_SOURCE, place, **facts)
        return KeySource(diagnostics=(structs.replace(refusal, location=place),))
    elif not has_errors(problems):
        problems = (_refused(documents[0], ("kind",), f"it {must}"),)
    return KeySource(inputs=inputs, diagnostics=problems)


def _written(value: Object, job: Job, document: Document) -> tuple[Object, list[Diagnostic]]:
    """Return the SecretProviderClass of a job: the pattern with its variables filled in."""
    ssh = job.credentials
    values = {"job": job.name, "namespace": job.namespace}
    if ssh is not None:
        values |= {"privateKey": ssh.private_key, "publicKey": ssh.public_key}
    problems: list[Diagnostic] = []

    def variable(match: re.Match[str]) -> str:
        name = match[1]
        if (known := values.get(name)) is not None:
            return known
        problem = f"$({name}) is not known: the job names none"
        if name not in values:
            there = ", ".join(f"$({other})" for other in values)
            problem = f"there is no {match[0]}; there are {there}"
        problems.append(_refused(document, ("spec",), problem))
        return match[0]

    spec = with_texts(document.data["spec"], lambda text: _VARIABLE.sub(variable, text))
    return {**value, "spec": spec}, problems


def _refused(document: Document, path: ValuePath, problem: str) -> Diagnostic:
    place = document.locate(path)
    return diagnose(codes.SECRET_SOURCE, place, option="--config secret=csi", problem=problem)
