"""Makes `.venv` with exactly the versions of `uv.lock`. Needs nothing but Python, not even pip or venv; run by the Makefile.

Further groups of dependencies can be named (`mutants`); the development group is always there.

Written so that an older Python can read it too: it then looks for a newer one, or says what is missing. What it imports of its own
is imported by the newer one only.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)
OLDEST_UV = (0, 9)
LEFT_TO_THE_LOCK = ("UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX_STRATEGY", "UV_NO_INDEX")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
UV_HOME = os.path.join(ROOT, ".uv")
EXPORTED = os.path.join(UV_HOME, "requirements.txt")


def main():
    if os.name == "nt":
        stop("Windows is not supported: commands cannot be contained there. Set it up inside WSL 2.")
    use_new_enough_python()
    os.chdir(ROOT)
    from package_index import configured

    index = configured()
    uv = find_uv(index)
    complaint = sync(uv, index)
    if complaint and "certificate" in complaint:  # a proxy that signs everything: the system's certificates know it
        os.environ["UV_SYSTEM_CERTS"] = "1"
        complaint = sync(uv, index)
    if complaint:
        sys.stderr.write(complaint)
        say("the addresses in the lock file do not do (the reason is above); trying the package index that is configured here")
        install_from_index(uv, index)
    compile_all()
    say("ready: .venv has the locked versions")


def use_new_enough_python():
    if sys.version_info >= OLDEST:
        return
    for minor in range(20, OLDEST[1] - 1, -1):
        newer = shutil.which("python3.%d" % minor)  # noqa: UP031
        if newer and works(newer, "-c", ""):
            os.execv(newer, [newer, os.path.abspath(__file__), *sys.argv[1:]])
    stop(
        "Python 3.11 or newer is needed, and this is %s. Install one (python.org, your package manager, pyenv), "  # noqa: UP031
        "or name it: make PYTHON=/path/to/python3.11" % sys.version.split()[0]
    )


def works(program, *words):
    return subprocess.call([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def find_uv(index):
    """One that is installed is used, if it is new enough to read the lock; else the one that the lock names is fetched."""
    installed = shutil.which("uv")
    if installed and uv_version(installed) >= OLDEST_UV:
        return installed
    own = os.path.join(UV_HOME, "bin", "uv")
    if uv_version(own) >= OLDEST_UV:
        return own
    from fetch_uv import CannotFetch, fetch_uv
    from moving_line import MovingLine

    try:
        with MovingLine("fetching uv, which reads the lock file") as line:

            def moved(so_far, total):
                line.news("%.0f%s MB" % (so_far / 1e6, " of %.0f" % (total / 1e6) if total else ""))  # noqa: UP031

            fetch_uv(Path(ROOT, "uv.lock"), Path(own), index, moved, line.note)
    except CannotFetch as error:
        stop(
            "uv cannot be fetched: %s. Is the package index reachable (PIP_INDEX_URL or pip.conf name another one)? "  # noqa: UP031
            "Or install uv by hand (https://docs.astral.sh/uv), and try again." % error
        )
    if uv_version(own) < OLDEST_UV:
        stop("%s was fetched and does not run here. Install uv by hand (https://docs.astral.sh/uv), and try again." % own)  # noqa: UP031
    return own


def uv_version(program):
    """`(0,)` where there is none that runs: it may have been made for another machine."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return (0,)
    found = re.match(r"uv (\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0,)


def groups():
    """`dev` always; others (`mutants`) by name."""
    return [word for group in ["dev", *sys.argv[1:]] for word in ("--group", group)]


def sync(uv, index):
    """Nothing if it worked, else what uv complained about."""
    from moving_line import run_shown

    command = [uv, "sync", "--frozen", *groups(), "--no-progress", "--no-python-downloads", "--python", sys.executable]
    # What the lock names has its address there; other indexes count for what builds our own package only.
    known = {name: value for name, value in index.for_uv().items() if name not in LEFT_TO_THE_LOCK}
    code, said = run_shown(command, "installing the locked versions into .venv", uv_environment(known))
    return None if code == 0 else said or "uv failed without a word\n"


def install_from_index(uv, index):
    """The same versions with the same hashes, from whatever index pip and uv are set up for."""
    from moving_line import run_shown

    os.makedirs(UV_HOME, exist_ok=True)
    env = uv_environment(index.for_uv())
    install = [uv, "pip", "install", "--no-progress", "--python", PYTHON]
    export = [uv, "export", "--frozen", *groups(), "--no-emit-project", "--quiet", "--no-python-downloads"]
    steps = (
        ([*export, "--python", sys.executable, "--output-file", EXPORTED], "reading the lock file"),
        ([uv, "venv", "--clear", "--quiet", "--no-python-downloads", "--python", sys.executable, VENV], "making .venv"),
        (
            [uv, "pip", "install", "--no-progress", "--python", PYTHON, "--require-hashes", "-r", EXPORTED],
            "installing the locked versions",
        ),
        ([*install, "--no-deps", "--editable", "."], "installing understudy"),
    )
    for command, text in steps:
        code, said = run_shown(command, text, env)
        if code != 0:
            sys.stderr.write(said)
            stop("%s failed (the reason is above); is the package index reachable?" % text)  # noqa: UP031


def uv_environment(settings):
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    env.update(settings)
    return env


def compile_all():
    """So that the first start is as fast as the others, and every start where nothing may be written beside the sources.

    A file that is no Python of this version is left out, whatever it is for.
    """
    from moving_line import run_shown

    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.check_output([PYTHON, "-c", code], text=True).strip()
    run_shown([PYTHON, "-m", "compileall", "-qq", os.path.join(ROOT, "src"), packages], "compiling")


def say(text):
    sys.stderr.write("set-up: " + text + "\n")
    sys.stderr.flush()


def stop(text):
    say(text)
    sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("stopped; run it again to go on")
        sys.exit(130)
