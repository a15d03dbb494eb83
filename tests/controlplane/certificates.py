"""A certificate authority for one test session, and the certificates of its server and users."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER_NAME = "kubernetes.test"
"""A name that the server's certificate has, besides 127.0.0.1 and localhost."""


class Authority:
    """Signs; nothing it made outlives a day."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "etcompile tests")])
        usage = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._name, self._key).add_extension(usage, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.file = folder / "ca.crt"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def server(self, name: str) -> tuple[Path, Path]:
        names = x509.SubjectAlternativeName(
            [
                x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                x509.DNSName("localhost"),
                x509.DNSName(SERVER_NAME),
            ]
        )
        return self._signed(name, [], ExtendedKeyUsageOID.SERVER_AUTH, names)

    def user(self, name: str, groups: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key of somebody whom the API server knows by this name and groups."""
        return self._signed(name, groups, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _signed(self, name, groups, usage, names) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        )
        builder = self._builder(subject, key).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        stem = name.replace(":", "-").replace("/", "-")
        certificate, private = self.folder / f"{stem}.crt", self.folder / f"{stem}.key"
        certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        write_key(private, key)
        return certificate, private

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
        )


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
