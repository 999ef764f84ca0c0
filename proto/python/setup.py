"""Adds the generated modules to what is built, and the run-time packages they need to what is required."""

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, os.path.dirname(__file__))
import generate


class BuildWithStubs(build_py):
    def run(self):
        super().run()
        generate.stubs(Path(__file__).parent / "src" if self.editable_mode else Path(self.build_lib))


setup(cmdclass={"build_py": BuildWithStubs}, install_requires=generate.requirements())
