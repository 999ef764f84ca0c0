"""Which daemon to call and as whom: addresses, certificates, tokens and the environment's defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Union

import grpc

from traind.errors import Unavailable

StrPath = Union[str, "os.PathLike[str]"]

_SYSTEM_SOCKET = Path("/run/traind/traind.sock")
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 30_000),
    # The daemon is reached directly, as the command line does.
    ("grpc.enable_http_proxy", 0),
]


class Target(NamedTuple):
    """Arguments of `grpc.insecure_channel` or `grpc.secure_channel`."""

    address: str
    credentials: grpc.ChannelCredentials | None
    options: list[tuple[str, Any]]


class Caller(NamedTuple):
    """Credentials of the caller and the authorities that the daemon's certificate needs."""

    ca: StrPath | None = None
    client_cert: StrPath | None = None
    client_key: StrPath | None = None
    token: str | None = None
    token_file: StrPath | None = None

    def with_defaults(self, environment: Mapping[str, str]) -> Caller:
        """The same with what the environment says where nothing is given."""

        def variable(name: str) -> str | None:
            return environment.get(name) or None

        has_token = self.token or self.token_file
        return Caller(
            self.ca or variable("TRAIND_CA"),
            self.client_cert or variable("TRAIND_CLIENT_CERT"),
            self.client_key or variable("TRAIND_CLIENT_KEY"),
            self.token if has_token else variable("TRAIND_TOKEN"),
            self.token_file if has_token else variable("TRAIND_TOKEN_FILE"),
        )


def target(
    address: str | None, socket: StrPath | None, caller: Caller, environment: Mapping[str, str] = os.environ
) -> Target:
    """Resolves what a client is given: an address, a socket, or neither."""
    if address is not None and socket is not None:
        raise ValueError("give an address or a socket, not both")
    if address is None and socket is None:
        address = environment.get("TRAIND_ADDRESS") or None
    if address is not None:
        return _network(address, caller.with_defaults(environment))
    if caller != Caller():
        raise ValueError("certificates and tokens are for an address; a socket's callers are known by their user")
    return _unix(Path(socket) if socket is not None else default_socket(environment))


def default_socket(environment: Mapping[str, str]) -> Path:
    """Where the command line looks: the first of the usual places in which a socket lies, the user's own first."""
    if environment.get("TRAIND_SOCKET"):
        return Path(environment["TRAIND_SOCKET"])
    places = [
        ("XDG_RUNTIME_DIR", "traind/traind.sock"),
        ("TRAIND_STATE_DIR", "traind.sock"),
        ("XDG_STATE_HOME", "traind/traind.sock"),
        ("HOME", ".local/state/traind/traind.sock"),
    ]
    own = [Path(environment[variable]) / place for variable, place in places if environment.get(variable)]
    return next((path for path in own if path.exists()), _SYSTEM_SOCKET)


def _unix(path: Path) -> Target:
    if not path.exists():
        message = f"no daemon answers on {path}; start one with `traind serve`, or name its socket"
        raise Unavailable(message, code="UNAVAILABLE")
    # gRPC would send the path as the authority of each call, which HTTP/2 forbids.
    return Target(f"unix:{path.absolute()}", None, [*_OPTIONS, ("grpc.default_authority", "localhost")])


def _network(address: str, caller: Caller) -> Target:
    if ":" not in address:
        raise ValueError(f"the address must be HOST:PORT, not {address!r}")
    if (caller.client_cert is None) != (caller.client_key is None):
        raise ValueError("client_cert and client_key go together")
    credentials = grpc.ssl_channel_credentials(
        root_certificates=_read(caller.ca),
        private_key=_read(caller.client_key),
        certificate_chain=_read(caller.client_cert),
    )
    token = caller.token or (Path(caller.token_file).read_text() if caller.token_file else "")
    if token.strip():
        shown = grpc.access_token_call_credentials(token.strip())
        credentials = grpc.composite_channel_credentials(credentials, shown)
    return Target(address, credentials, list(_OPTIONS))


def _read(path: StrPath | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
