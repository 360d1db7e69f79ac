"""The command line. Servers start with little parsing and few imports."""

import os
import signal
import sys

INTERRUPTED = 130


def main() -> int:
    if sys.platform == "win32":  # before importing anything that Windows lacks
        sys.stderr.write(
            "understudy: Windows is not supported: commands cannot be contained there. Install and run understudy inside WSL 2.\n"
        )
        return 1
    _leave_the_folder()
    words = sys.argv[1:]
    try:
        if words in (["mcp-server"], ["mcp"]):  # the usual call: go straight to the server, before anything else is imported
            if os.isatty(0):
                from understudy.cli.greeting import greet_person

                greet_person()
            import gc

            gc.disable()  # imported objects never become garbage
            from understudy.cli.bundle import use_bundle

            has_bundle = use_bundle()
            from understudy.servers.stdio.start import serve

            return _leaving_a_bundle(serve(), has_bundle)
        if words in (["app-server"], ["app-server", "--listen", "stdio://"]):
            from understudy.cli.bundle import use_bundle

            has_bundle = use_bundle()
            from understudy.servers.app_server.start import serve

            return _leaving_a_bundle(serve(), has_bundle)
        if words and (words[0] in ("exec", "e", "review") or words[0].startswith("-")):
            import gc

            if not words[0].startswith("-"):  # `--version` needs few of the modules
                from understudy.cli.bundle import use_bundle

                use_bundle()
            from understudy.cli.exec.options import is_exec

            if is_exec(words):
                gc.disable()  # imported objects never become garbage

                early: list[int] = []
                signal.signal(signal.SIGINT, lambda number, _: early.append(number))  # `exec` handles it once it is loaded
                from understudy.cli.exec.command import run as run_exec

                return run_exec(words, early)
        from understudy.cli.commands import run

        return run(words)
    except KeyboardInterrupt:  # commands that have something to end do so themselves
        return INTERRUPTED
    except (OSError, RuntimeError, MemoryError) as error:
        from understudy.errors import what_is_lacking

        if (lack := what_is_lacking(error)) is None:
            raise
        os.write(2, f"understudy: {lack}\n".encode())
        return 1


def _leaving_a_bundle(code: int, has_bundle: bool) -> int:
    """Called when a server has ended with that code, and nobody waits any more."""
    if not has_bundle:
        from understudy.cli.bundle_writing import write_bundle

        write_bundle()
    return code


def _leave_the_folder() -> None:
    """Do not import modules from the current folder, where `python -m` and empty or relative entries of PYTHONPATH would look."""
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""  # it no longer exists
    relative = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if not os.path.isabs(entry)]
    left_out = {folder, _script_folder(), *(os.path.normpath(os.path.join(folder, entry)) for entry in relative)}
    sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry) and os.path.normpath(entry) not in left_out]


def _script_folder() -> str:
    """The installed program's folder, which Python puts first in the path; with `python -m`, the current folder.

    Not if it also contains this package: then modules that we need may be there, too.
    """
    folder = os.path.dirname(os.path.realpath(sys.argv[0]))
    return "" if folder == os.path.dirname(os.path.dirname(os.path.dirname(__file__))) else folder


if __name__ == "__main__":
    sys.exit(main())
