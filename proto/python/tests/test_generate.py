"""The built package's requirements for its users' environments."""

import unittest
from importlib.metadata import version

from support import generate


class Requirements(unittest.TestCase):
    def test_the_code_runs_with_two_major_versions_of_protobuf(self):
        grpcio, protobuf = generate.requirements()
        self.assertTrue(grpcio.startswith("grpcio"), grpcio)
        oldest, newest = protobuf[len("protobuf>=") :].split(",<")
        self.assertEqual(int(newest), int(oldest.split(".")[0]) + 2)
        numbers = [int(number) for number in version("protobuf").split(".")]
        # The modules that the other tests import run with the one here.
        self.assertLessEqual([int(number) for number in oldest.split(".")], numbers)
        self.assertLess(numbers[0], int(newest))


if __name__ == "__main__":
    unittest.main()
