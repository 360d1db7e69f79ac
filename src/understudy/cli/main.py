"""The command line. The server's path is kept short: it parses nothing that it need not."""

import sys


def main() -> int:
    words = sys.argv[1:]
    if words in (["mcp-server"], ["mcp"]):  # the usual call: straight to the server, before anything else is imported
        from understudy.servers.mcp.first import serve

        return serve()
    from understudy.cli.commands import run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
