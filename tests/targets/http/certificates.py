"""Certificates created for a test: by an authority that a client may trust, or by the receiver itself."""

import ssl
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hourbell import clock

DAY = timedelta(days=1)


class Authority:
    """Clients that have its `ca_file` trust the certificates it issues."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.ca_file = folder / "authority.pem"
        made = _certificate("authority", self._key, "authority", self._key, until=clock.now() + DAY)
        self.ca_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def server(self, host: str) -> ssl.SSLContext:
        """Create the files that a receiver of this name needs to serve TLS."""
        return self._server(host, clock.now() + DAY)

    def expired_server(self, host: str) -> ssl.SSLContext:
        return self._server(host, clock.now() - DAY)

    def _server(self, host: str, until: datetime) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        return _serving(_certificate(host, key, "authority", self._key, until=until), key, self._folder)


def self_signed_server(host: str, folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    return _serving(_certificate(host, key, host, key, until=clock.now() + DAY), key, folder)


def _certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    until: datetime,
) -> x509.Certificate:
    is_authority = subject == "authority"
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - 10 * DAY)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(subject)]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _serving(made: x509.Certificate, key: ec.EllipticCurvePrivateKey, folder: Path) -> ssl.SSLContext:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / f"{made.serial_number}.pem"
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
