"""Prints the GFLOP/s of float32 products of one core in PyTorch: the best of some products of [ROWS, HIDDEN] and
[HIDDEN, INNER].

usage: gemm_rate.py ROWS HIDDEN INNER
"""

import sys
import time

import torch

PRODUCTS = 20

rows, hidden, inner = map(int, sys.argv[1:4])
torch.set_num_threads(1)
left, right, out = torch.randn(rows, hidden), torch.randn(hidden, inner), torch.empty(rows, inner)
seconds = []
for _ in range(PRODUCTS):
    begin = time.perf_counter()
    torch.mm(left, right, out=out)
    seconds.append(time.perf_counter() - begin)
print(2 * rows * hidden * inner / min(seconds) / 1e9)
