"""Makes `.venv` with exactly the versions of `uv.lock`. Needs nothing but Python; run by the Makefile.

Further groups of dependencies can be named (`mutants`); the development group is always there.

Written so that an older Python can read it too: it then looks for a newer one, or says what is missing.
"""

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
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
    uv = find_uv()
    say("installing the locked versions into .venv")
    complaint = sync(uv)
    if complaint and "certificate" in complaint:  # a proxy that signs everything: the system's certificates know it
        complaint = sync(uv, {"UV_SYSTEM_CERTS": "1"})
    if complaint:
        sys.stderr.write(complaint)
        say("uv could not install them (the reason is above); trying pip, which may know another package index")
        install_with_pip(uv)
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


def find_uv():
    """uv reads the lock. One that is installed is used; else it comes from the package index, into a folder of its own."""
    installed = shutil.which("uv")
    if installed:
        return installed
    own = os.path.join(UV_HOME, "bin", "uv")
    if not (os.path.exists(own) and works(own, "--version")):  # it may be left half-made by a run that was stopped
        say("fetching uv, which reads the lock file")
        make_venv(UV_HOME)
        run([os.path.join(UV_HOME, "bin", "python"), "-m", "pip", "install", "--quiet", "uv>=0.9"], "uv could not be installed")
    return own


def groups():
    """`dev` always; others (`mutants`) by name."""
    return [word for group in ["dev", *sys.argv[1:]] for word in ("--group", group)]


def sync(uv, settings=()):
    """Nothing if it worked, else what uv complained about."""
    command = [uv, "sync", "--frozen", *groups(), "--quiet", "--no-python-downloads", "--python", sys.executable]
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    env.update(settings)
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, universal_newlines=True)
    complaint = process.communicate()[1]
    return None if process.returncode == 0 else complaint or "uv failed without a word\n"


def install_with_pip(uv):
    """The same versions with the same hashes, from whatever index pip is set up for."""
    os.makedirs(UV_HOME, exist_ok=True)
    export = [uv, "export", "--frozen", *groups(), "--no-emit-project", "--quiet", "--no-python-downloads"]
    run([*export, "--python", sys.executable, "--output-file", EXPORTED], "the lock file could not be read")
    shutil.rmtree(VENV, ignore_errors=True)
    make_venv(VENV)
    pip = [PYTHON, "-m", "pip", "install", "--quiet"]
    run([*pip, "--require-hashes", "-r", EXPORTED], "the locked versions could not be installed; is the package index reachable?")
    run([*pip, "--no-deps", "--editable", "."], "understudy itself could not be installed")


def compile_all():
    """So that the first start is as fast as the others, and every start where nothing may be written beside the sources.

    A file that is no Python of this version is left out, whatever it is for.
    """
    say("compiling")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.check_output([PYTHON, "-c", code], universal_newlines=True).strip()
    subprocess.call([PYTHON, "-m", "compileall", "-qq", os.path.join(ROOT, "src"), packages])


def make_venv(folder):
    try:
        import ensurepip
        import venv
    except ImportError:
        stop(
            "this Python cannot make virtual environments. On Debian or Ubuntu: apt install python3-venv. "
            "Elsewhere: install the part of Python called venv, or uv (https://docs.astral.sh/uv)."
        )
    else:
        assert ensurepip.version()
        venv.create(folder, with_pip=True, clear=True, symlinks=True)


def run(command, failure):
    if subprocess.call(command) != 0:
        stop(failure + " (the reason is above)")


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
