"""What sources of ssh keys need of the outside: a certificate, a recipient, a vault's pattern."""

import datetime as dt
from pathlib import Path
from typing import NamedTuple

import pyrage
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding

MODES = {
    "runtime": "runtime",
    "existing:NAME": "existing:shared-keys",
    "external": "external",
    "external:STORE": "external:vault/ml",
    "sealed": "sealed:{certificate}",
    "sops": "sops:{recipient}",
    "csi:NAME": "csi:vault-ssh",
    "csi:FILE": "csi:{pattern}",
}
"""Each mode as the setting `secret` has it, with what `Means` has in braces."""

_PATTERN = """
apiVersion: secrets-store.csi.x-k8s.io/v1
kind: SecretProviderClass
metadata: {name: any}
spec:
  provider: vault
  parameters:
    roleName: training
    objects: |
      - {objectName: $(privateKey), secretPath: secret/data/$(namespace)/$(job), secretKey: private}
      - {objectName: $(publicKey), secretPath: secret/data/$(namespace)/$(job), secretKey: public}
"""


class Means(NamedTuple):
    """Files and a recipient, and an output folder that is not there."""

    certificate: Path
    recipient: str
    pattern: Path
    output: Path

    def mode(self, name: str) -> str:
        return MODES[name].format(**self._asdict())


def create_means(folder: Path) -> Means:
    pattern = folder / "class.yaml"
    pattern.write_text(_PATTERN)
    recipient = str(pyrage.x25519.Identity.generate().to_public())
    return Means(certificate(folder / "cert.pem"), recipient, pattern, folder / "out")


def certificate(path: Path) -> Path:
    """A certificate as the controller of Sealed Secrets has one, for a day."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(signed.public_bytes(Encoding.PEM))
    return path
