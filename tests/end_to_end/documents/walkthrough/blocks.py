"""Runs blocks of Python one after another in one namespace, as cells of a notebook: `await` may stand outside functions.

Usage: blocks.py BLOCKS, a JSON list of source texts
"""

import ast
import asyncio
import inspect
import json
import sys

namespace = {}
for source in json.loads(sys.argv[1]):
    code = compile(source, "<page>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, namespace))
    else:
        exec(code, namespace)
