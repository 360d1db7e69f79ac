"""Which paths may be read without a question: those of the project and the system's public folders, secrets apart.

Paths are judged as they are written. A link inside the project can lead anywhere; what it may lead to is the sandbox's part.
"""

import re
from posixpath import join, normpath

PUBLIC = ("/usr", "/bin", "/sbin", "/lib", "/lib64")

# What often holds a secret, wherever it lies; and the kernel's folders, which hold the environment of processes and endless files.
_SECRET = re.compile(
    r"""(?: ^ | / ) (?:
        \.ssh | \.aws | \.azure | \.gnupg | \.gpg | \.kube | \.docker | \.codex | \.password-store | \.vault-token | \.terraform\.d
      | \.netrc | _netrc | \.pgpass | \.my\.cnf | \.npmrc | \.yarnrc | \.pypirc | \.git-credentials | \.env | \.envrc
      | gcloud | keyrings | auth\.json | (?: credentials | secrets? ) (?: \. (?: json | ya?ml | toml | ini | txt ) )?
      | id_ (?: rsa | dsa | ecdsa | ed25519 ) (?: _sk )? | g? shadow -? | sudoers (?: \.d )?
      | [^/]* \. (?: pem | key | p12 | pfx | jks | keystore | kdbx )
    ) (?: / | $ )""",
    re.VERBOSE | re.IGNORECASE,
)
_KERNEL = re.compile(r"/(?:proc|sys|dev|run|var/run)(?:/|$)", re.IGNORECASE)


def is_inside(path: str, folders: tuple[str, ...]) -> bool:
    """Whether an absolute, normal path is one of the folders or lies in one."""
    return any(path == folder or folder == "/" or path.startswith(folder + "/") for folder in folders)


def resolve(path: str, cwd: str) -> str:
    """An absolute path without `.` and `..`, links not looked at."""
    resolved = normpath(join(cwd, path))
    return resolved[1:] if resolved.startswith("//") else resolved


def may_read(path: str, cwd: str, project: tuple[str, ...]) -> bool:
    """Whether reading `path` from `cwd` needs no question."""
    if "\0" in path:
        return False
    resolved = resolve(path, cwd)
    if _KERNEL.match(resolved):
        return resolved == "/dev/null"
    if not is_inside(resolved, project):
        return is_inside(resolved, PUBLIC)
    return _SECRET.search(resolved[_depth(resolved, project) :]) is None


def _depth(path: str, project: tuple[str, ...]) -> int:
    """Where the part below the project begins: the project's own name is the user's choice, whatever it sounds like."""
    return max((len(folder) for folder in project if folder != "/" and is_inside(path, (folder,))), default=0)
