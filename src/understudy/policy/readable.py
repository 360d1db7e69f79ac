"""Which paths may be read without a question: the project's and the system's public folders, except likely secrets.

Only judges the spelling of paths. A link inside the project can lead anywhere; the sandbox deals with that.
"""

import re
from posixpath import normpath

from understudy.policy.words import names

PUBLIC = ("/usr", "/bin", "/sbin", "/lib", "/lib64")

# Files that often contain a secret, wherever they are.
_SECRET_NAMES = names(
    ".ssh .aws .azure .gnupg .gpg .kube .docker .codex .password-store .vault-token .terraform.d gcloud keyrings"
    " .netrc _netrc .pgpass .my.cnf .npmrc .yarnrc .pypirc .git-credentials .env .envrc auth.json"
    " credentials credentials.json credentials.toml credentials.yml credentials.yaml credentials.ini"
    " secret secrets secrets.json secrets.toml secrets.yml secrets.yaml secrets.ini secret.json secret.txt secrets.txt"
    " id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk shadow shadow- gshadow gshadow- sudoers sudoers.d"
)
_SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx")
# Folders of the kernel that show the environment of processes, and files without end.
_KERNEL = re.compile(r"/(?:proc|sys|dev|run|var/run)(?:/|$)", re.IGNORECASE)


def is_inside(path: str, folders: tuple[str, ...]) -> bool:
    """Whether an absolute, normal path is one of the folders or is inside one."""
    return _depth(path, folders) >= 0


def resolve(path: str, cwd: str) -> str:
    """Makes the path absolute, without `.` and `..`; links are ignored."""
    joined = path if path.startswith("/") else f"{cwd}/{path}"
    if "//" not in joined and "/." not in joined and joined[-1] != "/":
        return joined  # most paths; the general way is slow
    resolved = normpath(joined)
    return resolved[1:] if resolved.startswith("//") else resolved


def may_read(path: str, cwd: str, project: tuple[str, ...]) -> bool:
    """Whether reading `path` from `cwd` needs no question."""
    if "\0" in path:
        return False
    resolved = resolve(path, cwd)
    if _KERNEL.match(resolved):
        return resolved == "/dev/null"
    depth = _depth(resolved, project)
    if depth < 0:
        return is_inside(resolved, PUBLIC)
    below = resolved[depth:].casefold()  # the user chose the project's own name, so it does not count
    return not below.endswith(_SECRET_ENDINGS) and _SECRET_NAMES.isdisjoint(below.split("/"))


def _depth(path: str, folders: tuple[str, ...]) -> int:
    """Where the part below the innermost folder that contains `path` begins; -1 if no folder does."""
    depth = -1
    for folder in folders:
        if path == folder or path.startswith(folder if folder == "/" else folder + "/"):
            depth = max(depth, len(folder))
    return depth
