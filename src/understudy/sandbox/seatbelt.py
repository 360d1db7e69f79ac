"""The macOS profile and the command line that applies it. Written from public documentation; not proven on a Mac."""

import os

from understudy.sandbox.spec import Containment

SANDBOX_EXEC = "/usr/bin/sandbox-exec"  # by its full path: a program of that name elsewhere in PATH is not ours to trust

_BASE = """(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo") (global-name "com.apple.PowerManagement.control"))
(allow ipc-posix-sem)
(allow ipc-posix-shm)
(allow pseudo-tty)
(allow file-read*)
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-ioctl (regex #"^/dev/tty") (literal "/dev/ptmx"))
(allow file-read* file-write* (regex #"^/dev/ttys[0-9]+$") (literal "/dev/ptmx"))
"""
_NETWORK = {
    "off": "",
    "loopback": """(allow network-bind (local ip "localhost:*"))
(allow network-inbound (local ip "localhost:*"))
(allow network-outbound (remote ip "localhost:*"))
(allow system-socket)
""",
    "on": """(allow network-bind)
(allow network-inbound)
(allow network-outbound)
(allow system-socket)
(allow mach-lookup (global-name "com.apple.dnssd.service") (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.trustd.agent") (global-name "com.apple.SecurityServer"))
""",
}


def profile(containment: Containment, roots: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The profile's text and its parameters. Paths come in as parameters only, so none can be read as a rule."""
    parameters: dict[str, str] = {}
    text = _BASE
    for index, root in enumerate(_real(roots)):
        parameters[f"ROOT_{index}"] = root
        kept = ""
        for number, name in enumerate(name for name in containment.protected if not name.startswith("/")):
            key = f"ROOT_{index}_KEEP_{number}"
            parameters[key] = os.path.join(root, name)
            kept += f' (require-not (subpath (param "{key}"))) (require-not (literal (param "{key}")))'
        text += f'(allow file-write* (require-all (subpath (param "ROOT_{index}")){kept}))\n'
    for index, path in enumerate(_real(tuple(name for name in containment.protected if name.startswith("/")))):
        parameters[f"KEEP_{index}"] = path
        text += f'(deny file-write* (subpath (param "KEEP_{index}")))\n'
    for index, path in enumerate(_real(containment.masked)):
        parameters[f"MASK_{index}"] = path
        text += f'(deny file-read* file-write* (subpath (param "MASK_{index}")))\n'
    if containment.private_tmp is not None:  # after the masks: it lies in our masked state
        parameters["PRIVATE_TMP"] = os.path.realpath(containment.private_tmp)
        text += '(allow file-read* file-write* (subpath (param "PRIVATE_TMP")))\n'
    return text + _NETWORK[containment.network], parameters


def command_line(argv: tuple[str, ...], containment: Containment, roots: tuple[str, ...]) -> tuple[str, ...]:
    text, parameters = profile(containment, roots)
    definitions = [f"-D{name}={value}" for name, value in parameters.items()]
    return (SANDBOX_EXEC, "-p", text, *definitions, "--", *argv)


def _real(paths: tuple[str, ...]) -> list[str]:
    """As the kernel names them: on macOS /tmp and /var are links into /private."""
    return [os.path.realpath(path) for path in paths]
