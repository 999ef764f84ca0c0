"""Tests that every script says how it is used, before it builds or downloads anything."""

import os
import re
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SCRIPTS = Path(__file__).parents[1]
#: Debian's package manager runs these.
NONE_OF_OURS = {"packages/postinst", "packages/prerm"}
SECONDS_MAX = 60


def scripts() -> list[Path]:
    files = (path for path in SCRIPTS.rglob("*") if path.is_file() and os.access(path, os.X_OK))
    return sorted(path for path in files if str(path.relative_to(SCRIPTS)) not in NONE_OF_OURS)


def ran(script: Path, arguments: list[str], home: str) -> subprocess.CompletedProcess[str]:
    cache = Path(home, "cache")
    environment = {"PATH": os.environ["PATH"], "HOME": home, "TRAIND_CACHE_DIR": str(cache)}
    return subprocess.run(
        [script, *arguments],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


class Usage(unittest.TestCase):
    def check(self, calls: list[tuple[Path, list[str]]], code: int, output: str) -> None:
        with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor() as pool:
            found = pool.map(lambda call: (*call, ran(*call, home)), calls)
            for script, arguments, result in found:
                with self.subTest(script=script.relative_to(SCRIPTS), arguments=arguments):
                    self.assertEqual(result.returncode, code, result.stderr)
                    self.assertIn("usage: ", getattr(result, output))
            self.assertEqual(os.listdir(home), [])

    def test_help_prints_the_usage(self):
        self.check([(script, ["--help"]) for script in scripts()], 0, "stdout")

    def test_an_unknown_option_prints_the_usage_and_exits_with_2(self):
        self.check([(script, ["--no-such-option"]) for script in scripts()], 2, "stderr")

    def test_wrong_arguments_print_the_usage_and_exit_with_2(self):
        calls = [
            "bench/compiling extra",
            "bench/large_set --megabytes",
            "bench/run --rounds",
            "bench/run --family gpt2 --rounds --rows 100",
            "compare/builds before --rounds",
            "compare/meshes --family",
            "compare/meshes bert",
            "compare/precision extra",
            "compare/preferences extra",
            "compare/published",
            "compare/three_ways extra",
            "compare/tokenizers --seed",
            "examples/icons --cores",
            "examples/search extra",
            "lib/packages/verify_packages",
            "lib/packages/verify_unit",
            "quickstart extra",
            "soak/bucket --kills",
            "soak/host_faults --mesh",
            "soak/packages",
            "soak/reshard extra",
            "soak/sanitizer extra",
            "soak/slurm --hosts",
        ]
        split = [call.split() for call in calls]
        self.check([(SCRIPTS / script, arguments) for script, *arguments in split], 2, "stderr")

    def test_an_option_without_its_value_is_named_with_the_usage(self):
        options = re.compile(r"^ +(--[a-z-]+)\)\s+needs_value", re.MULTILINE)
        calls = [(script, option) for script in scripts() for option in options.findall(script.read_text())]
        self.assertGreater(len(calls), 10)
        with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor() as pool:
            for (script, option), result in pool.map(lambda call: (call, ran(call[0], [call[1]], home)), calls):
                with self.subTest(script=script.relative_to(SCRIPTS), option=option):
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn(f"{option} needs a value", result.stderr)
                    self.assertIn("usage: ", result.stderr)
            self.assertEqual(os.listdir(home), [])


if __name__ == "__main__":
    unittest.main()
