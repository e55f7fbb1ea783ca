# SPDX-License-Identifier: MIT
"""lupahost.py FOLDER MODULE SCRIPT: runs it in the LuaJIT of lupa.MODULE."""
import importlib
import sys

sys.path.insert(0, sys.argv[1])
lua = importlib.import_module("lupa." + sys.argv[2]).LuaRuntime()
lua.eval("dofile")(sys.argv[3])
