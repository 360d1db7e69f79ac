"""The command line. The server's path is kept short: it parses nothing that it need not."""

import os
import sys

INTERRUPTED = 130


def main() -> int:
    if sys.platform == "win32":  # before anything is imported that Windows does not have
        sys.stderr.write(
            "understudy: Windows is not supported: commands cannot be contained there. Install and run understudy inside WSL 2.\n"
        )
        return 1
    words = sys.argv[1:]
    try:
        if words in (["mcp-server"], ["mcp"]):  # the usual call: straight to the server, before anything else is imported
            if os.isatty(0):
                from understudy.cli.greeting import greet_person

                greet_person()
            from understudy.servers.mcp.first import serve

            return serve()
        from understudy.cli.commands import run

        return run(words)
    except KeyboardInterrupt:  # a command that has something to end does so itself
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
