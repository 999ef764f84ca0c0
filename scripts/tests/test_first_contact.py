"""How `neuron/first-contact` takes its arguments, and what it leaves when it is interrupted."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1] / "neuron"))

import first_contact


def versions(contact):
    return {"runtime": "2.34.10", "driver": "2.30.2.0"}


def instance(contact):
    raise KeyboardInterrupt


class FirstContact(unittest.TestCase):
    def run_with(self, *arguments):
        with (
            mock.patch.object(sys, "argv", ["first_contact.py", *arguments]),
            mock.patch.object(first_contact, "Contact"),
            mock.patch.object(first_contact, "PARTS", [versions, instance]),
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            try:
                first_contact.main()
            except SystemExit as exit:
                return exit.code, errors.getvalue()
        return 0, errors.getvalue()

    def test_wrong_arguments_are_refused_before_the_work(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments, part in [
                (["--out", f"{folder}/missing/report.json"], "existing folder"),
                (["--out", folder], "existing folder"),
                (["--out", f"{folder}/report.json", "--without", "everything"], "everything"),
            ]:
                code, errors = self.run_with(*arguments)
                self.assertEqual(code, 2, errors)
                self.assertIn(part, errors)

    def test_an_interrupted_contact_leaves_its_findings(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(KeyboardInterrupt):
                self.run_with("--out", f"{folder}/report.json")
            report = json.loads(Path(folder, "report.json").read_text())
            self.assertEqual(report["versions"]["found"]["runtime"], "2.34.10")
            self.assertEqual(report["options"]["found"]["driver"], "2.30.2.0")
            self.assertEqual([path.name for path in Path(folder).iterdir()], ["report.json"])


if __name__ == "__main__":
    unittest.main()
