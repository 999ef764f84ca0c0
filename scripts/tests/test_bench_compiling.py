"""How `bench/compiling` reads the compiler's log."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

import compiling

LOG = """\
I0000 00:00:1.5   7 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module capability_probe: simplification
I0000 00:00:1.5   7 hlo_pass_pipeline.cc:171] HLO pass: algsimp time: 9 ms (9000 us) (cumulative: 9 ms, max: 9 ms, #called: 1)
I0000 00:00:1.6   7 hlo_pass_pipeline.cc:298] Running HLO pass pipeline on module step: simplification
I0000 00:00:1.6   7 hlo_pass_pipeline.cc:171] HLO pass: algsimp time: 250 ms (250000 us) (cumulative: 1 s, max: 1 s, #called: 2)
I0000 00:00:1.7   7 hlo_pass_pipeline.cc:171] HLO pass: simplification time: 260 ms (260000 us) (cumulative: 2 s, max: 1 s, #called: 1)
I0000 00:00:1.8   8 ir_compiler.cc:263] Compiled LLVM module: __compute_module_dot.3_elemental_kernel_module time: 2 s (2000000 us)
I0000 00:00:1.8   9 ir_compiler.cc:263] Compiled LLVM module: __compute_module_dot.4_elemental_kernel_module time: 1 s (1000000 us)
I0000 00:00:1.9   7 cpu_compiler.cc:2067] Compiling [step] for CPU using JIT time: 3.5 s (3500000 us) (cumulative: 4 s)
step 2/2: loss 2.9
"""


class Log(unittest.TestCase):
    def test_times_of_the_step_are_added_by_kind(self):
        times = compiling.read(LOG.splitlines())
        self.assertEqual(times.programs, [3.5])
        self.assertEqual(times.passes, {"algsimp": 0.25})
        self.assertEqual((times.loops, times.modules), ({"dot_elemental": 3.0}, 2))


if __name__ == "__main__":
    unittest.main()
