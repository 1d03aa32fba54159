"""Key generation for `dragoman init` and `dragoman keys new`.

Secrets are returned to the caller and stored nowhere. Each broker has a certificate authority of
its own. A peer trusts that authority and no other.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import zmq
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dragoman.model.value import value
from dragoman.sdk.credentials import Credentials
from dragoman.transports.nkeys import Nkey
from dragoman.transports.tls import key_of_certificate


@value
class Certificate:
    """A certificate and the secret key for it, both PEM texts."""

    certificate: str
    secret: str

    def __repr__(self) -> str:
        """Show the public fingerprint only."""
        return f"Certificate({self.key})"

    @property
    def key(self) -> str:
        """The broker's name for it: `tls:` and the certificate's SHA-256."""
        found = x509.load_pem_x509_certificate(self.certificate.encode())
        return key_of_certificate(found.public_bytes(serialization.Encoding.DER))


def new_authority(name: str, days: int = 3650) -> Certificate:
    """Make a certificate authority."""
    secret = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(name, name, secret.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .sign(secret, hashes.SHA256())
    )
    return _certificate(made, secret)


def new_certificate(
    authority: Certificate, name: str, hosts: tuple[str, ...] = (), days: int = 825
) -> Certificate:
    """Make a certificate: for a listener if `hosts` names some, else for a peer."""
    issuing = x509.load_pem_x509_certificate(authority.certificate.encode())
    signer = serialization.load_pem_private_key(authority.secret.encode(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    secret = ec.generate_private_key(ec.SECP256R1())
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if hosts:
        # Both: the servers of a cluster connect to each other.
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = issuing.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    builder = (
        _builder(name, str(issuer), secret.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return _certificate(builder.sign(signer, hashes.SHA256()), secret)


def _builder(
    name: str, issuer: str, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer[:64])]))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        # Clocks of machines differ, so it is valid from an hour ago.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(made: x509.Certificate, secret: ec.EllipticCurvePrivateKey) -> Certificate:
    pem = serialization.Encoding.PEM
    written = secret.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(made.public_bytes(pem).decode().strip(), written.decode().strip())


def new_curve() -> tuple[str, str]:
    """Make a CURVE pair in Z85: public, secret. The broker names it `curve:` and the public key."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def new_nkey() -> tuple[str, str]:
    """Make a NATS user's pair: public, seed. The broker names it `nkey:` and the public key."""
    made = Nkey.new()
    return made.public, made.seed


def new_credentials(
    name: str, server: str = "", authority: Certificate | None = None, token: str = ""
) -> tuple[Credentials, tuple[str, ...]]:
    """Make a peer's credentials; return them with the names by which the broker knows them.

    Args:
        name: The subject of the certificate.
        server: The broker's public CURVE key; without it there are no CURVE keys.
        authority: The broker's authority; without it there is no certificate.
        token: The peer's bearer token.

    """
    public, secret = new_curve() if server else ("", "")
    user, seed = new_nkey()
    tls = new_certificate(authority, name) if authority else Certificate("", "")
    keys = [f"nkey:{user}", *([f"curve:{public}"] if server else [])]
    if authority is not None:
        keys.append(tls.key)
    trusted = authority.certificate if authority else ""
    made = Credentials(public, secret, server, tls.certificate, tls.secret, trusted, token, seed)
    return made, tuple(keys)
