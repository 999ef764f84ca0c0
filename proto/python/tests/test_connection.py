"""Which daemon is called, by arguments and environment."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import grpc
import support
from daemon import Daemon

import traind
from traind import Unavailable
from traind.connection import Caller, default_socket, target
from traind.errors import CallError
from traind.patience import Patience


class Targets(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_socket_has_an_authority_that_http_allows(self):
        (self.folder / "socket").touch()
        found = target(None, self.folder / "socket", Caller(), {})
        self.assertEqual((found.address, found.credentials), (f"unix:{self.folder}/socket", None))
        self.assertIn(("grpc.default_authority", "localhost"), found.options)

    def test_a_missing_socket_is_said_at_once(self):
        with self.assertRaisesRegex(Unavailable, "traind serve"):
            target(None, self.folder / "socket", Caller(), {})

    def test_an_address_goes_through_tls(self):
        found = target("host:7443", None, Caller(token="secret"), {})
        self.assertEqual(found.address, "host:7443")
        self.assertIsNotNone(found.credentials)

    def test_the_environment_names_address_and_credentials(self):
        self.assertEqual(target(None, None, Caller(), {"TRAIND_ADDRESS": "host:1"}).address, "host:1")
        environment = {"TRAIND_TOKEN": "a", "TRAIND_CA": "ca.pem"}
        self.assertEqual(Caller().with_defaults(environment), Caller(ca="ca.pem", token="a"))
        self.assertEqual(Caller(token_file="b").with_defaults(environment).token, None)

    def test_the_users_own_socket_comes_first(self):
        own = self.folder / "traind" / "traind.sock"
        environment = {"XDG_RUNTIME_DIR": str(self.folder)}
        self.assertEqual(default_socket(environment), Path("/run/traind/traind.sock"))
        own.parent.mkdir()
        own.touch()
        self.assertEqual(default_socket(environment), own)
        self.assertEqual(default_socket({**environment, "TRAIND_SOCKET": "/x"}), Path("/x"))

    def test_what_does_not_fit_is_refused(self):
        for address, caller in [("host", Caller()), ("host:1", Caller(client_cert="c")), (None, Caller(token="t"))]:
            with self.assertRaises(ValueError):
                target(address, None if address else self.folder, caller, {})
        with self.assertRaises(ValueError):
            target("host:1", self.folder, Caller(), {})


@unittest.skipUnless(shutil.which("openssl"), "needs openssl for a certificate")
class Network(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cert, self.key = Path(folder.name) / "cert.pem", Path(folder.name) / "key.pem"
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        names = ["-subj", "/CN=ann", "-addext", "subjectAltName=DNS:localhost", "-days", "1"]
        subprocess.run([*make, *names, "-keyout", self.key, "-out", self.cert], check=True, capture_output=True)

    def serve(self, asks_for_certificate):
        pair = [(self.key.read_bytes(), self.cert.read_bytes())]
        known = self.cert.read_bytes() if asks_for_certificate else None
        daemon = Daemon(grpc.ssl_server_credentials(pair, known, asks_for_certificate))
        self.addCleanup(daemon.close)
        daemon.answers = [support.job()]
        return daemon

    def test_a_token_is_shown_through_tls(self):
        daemon = self.serve(asks_for_certificate=False)
        with traind.Client(daemon.address, ca=self.cert, token="secret\n") as client:
            self.assertEqual(client.job("tiny").id, "j1")
        self.assertEqual(daemon.metadata["authorization"], "Bearer secret")

    def test_a_certificate_says_who_calls(self):
        daemon = self.serve(asks_for_certificate=True)
        with traind.Client(daemon.address, ca=self.cert, client_cert=self.cert, client_key=self.key) as client:
            self.assertEqual(client.job("tiny").id, "j1")
        self.assertEqual(daemon.caller, [b"ann"])


class Pauses(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.patience = Patience(10, clock=lambda: self.now)

    def test_pauses_grow_to_a_second_and_end(self):
        away = CallError("refused", code="UNAVAILABLE")
        pauses = [self.patience.pause(away) for _ in range(8)]
        self.assertEqual((pauses[0], pauses[-1]), (0.05, 1.0))
        self.now = 10.0
        self.assertIsNone(self.patience.pause(away))
        self.patience.restart()
        self.assertEqual(self.patience.pause(away), 0.05)

    def test_a_daemon_that_is_there_and_refuses_is_not_asked_again(self):
        for error in (CallError("no", code="NOT_FOUND"), CallError("no", code="UNAVAILABLE", reason="SHUTTING_DOWN")):
            self.assertIsNone(self.patience.pause(error))

    def test_the_daemons_own_pause_is_kept_about(self):
        busy = CallError("busy", code="RESOURCE_EXHAUSTED", reason="BUSY", retry_seconds=2.0)
        self.assertTrue(1.0 <= self.patience.pause(busy) <= 3.0)


if __name__ == "__main__":
    unittest.main()
