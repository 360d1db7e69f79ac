"""Our server under the standard profiler: `python -P profiled.py FILE mcp-server`. Counts every call of the main thread."""

import cProfile
import sys

if __name__ == "__main__":
    path = sys.argv.pop(1)
    from understudy.cli.main import main

    profiler = cProfile.Profile()
    code = profiler.runcall(main)
    profiler.dump_stats(path)
    sys.exit(code)
