"""No script has the name of a package: Python would import it in the package's place."""

import re
import sys
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).parents[1]
#: Packages that are imported by another name than they are installed by.
IMPORTED_AS = {"pillow": "PIL", "scikit_learn": "sklearn", "grpcio": "grpc"}


def packages():
    """The packages of all environments, by the names that scripts import."""
    files = (SCRIPTS / "lib" / "requirements").glob("*.txt")
    lines = (line for file in files for line in file.read_text().splitlines())
    names = (match[0].replace("-", "_").lower() for line in lines if (match := re.match(r"[A-Za-z][\w.-]*", line)))
    return {IMPORTED_AS.get(name, name) for name in names}


class ModuleNames(unittest.TestCase):
    def test_no_script_is_imported_in_the_place_of_a_package(self):
        taken = packages() | sys.stdlib_module_names - {"__main__"}
        self.assertIn("trl", taken)
        shadows = [str(path.relative_to(SCRIPTS)) for path in SCRIPTS.rglob("*.py") if path.stem in taken]
        self.assertEqual(shadows, [])


if __name__ == "__main__":
    unittest.main()
