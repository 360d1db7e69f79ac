"""Files that take effect by themselves later on: to write one is to run something, only not now."""

from unicodedata import normalize

from understudy.policy.words import names

# By whom each is run or obeyed: the names of files, endings of names, and folders with all that is in them.
_RUN_BY: tuple[tuple[str, str], ...] = (
    ("run by direnv and similar tools on entering the folder", ".envrc .env mise.toml .mise.toml .tool-versions /.direnv/"),
    ("run by the editor", "/.vscode/ /.idea/ *.code-workspace .vimrc .exrc .nvimrc .nvim.lua .emacs .dir-locals.el"),
    ("run when the container is built", "/.devcontainer/ .devcontainer.json"),
    (
        "run by the build service",
        "/.github/workflows/ /.github/actions/ /.gitlab/ .gitlab-ci.yml .gitlab-ci.yaml /.circleci/ /.woodpecker/ .woodpecker.yml"
        " /.buildkite/ /.forgejo/ /.gitea/ .travis.yml .drone.yml azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml"
        " cloudbuild.yaml jenkinsfile",
    ),
    (
        "run or obeyed by git",
        "/.git/ .git .gitmodules .gitattributes .gitconfig /.githooks/ /.husky/ .pre-commit-config.yaml .pre-commit-config.yml"
        " lefthook.yml",
    ),
    (
        "run by each new shell or at login",
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc"
        " .cshrc .tcshrc .xprofile .xsessionrc .xinitrc .inputrc /.config/fish/ /.config/autostart/ /.config/environment.d/",
    ),
    ("run as a service", "/.config/systemd/ /.local/share/systemd/ /library/launchagents/ crontab"),
    ("obeyed by debuggers", ".gdbinit .lldbinit"),
    ("obeyed by package managers", ".npmrc .yarnrc .yarnrc.yml .pnp.cjs .pnp.js .pnpmfile.cjs pip.conf .pypirc /.cargo/"),
    ("run by every Python program", "sitecustomize.py usercustomize.py *.pth"),
    ("lets others log in, or logs in elsewhere", "/.ssh/ .netrc"),
    (
        "obeyed by agents",
        "/.codex/ /.agents/ /.claude/ /.cursor/ .mcp.json agents.md agents.override.md claude.md claude.local.md",
    ),
)
_NAMES = {name: words for words, entries in _RUN_BY for name in names(entries) if name[0] not in "/*"}
_ENDINGS = {name[1:]: words for words, entries in _RUN_BY for name in names(entries) if name[0] == "*"}
_FOLDERS = {name: words for words, entries in _RUN_BY for name in names(entries) if name[0] == "/"}


def runs_later(path: str) -> str | None:
    """By whom, if anyone, this file is read by itself and what it says is done.

    In any case and spelling: some file systems take `.GIT`, `.git.` and `.git ` for the same.
    """
    if not path.isascii():
        path = normalize("NFKC", path)
    parts = [part.rstrip(". ") or part for part in path.casefold().split("/")]
    name, whole = parts[-1], f"/{'/'.join(parts)}"
    return (
        _NAMES.get(name)
        or next((words for ending, words in _ENDINGS.items() if name.endswith(ending)), None)
        or next((words for folder, words in _FOLDERS.items() if folder in whole), None)
    )
