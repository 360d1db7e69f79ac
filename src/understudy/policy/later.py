"""Files that take effect by themselves later on: to write one is to run something, only not now."""

from unicodedata import normalize

from understudy.policy.words import names

_NAMES = names(
    ".envrc .env mise.toml .mise.toml .tool-versions .devcontainer.json"
    " .gitlab-ci.yml .gitlab-ci.yaml .travis.yml .drone.yml .woodpecker.yml azure-pipelines.yml bitbucket-pipelines.yml"
    " appveyor.yml cloudbuild.yaml jenkinsfile"
    " .git .gitmodules .gitattributes .gitconfig .pre-commit-config.yaml .pre-commit-config.yml lefthook.yml"
    " .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc"
    " .tcshrc .xprofile .xsessionrc .xinitrc .inputrc crontab"
    " .vimrc .exrc .nvimrc .nvim.lua .gdbinit .lldbinit .emacs .dir-locals.el"
    " .npmrc .yarnrc .yarnrc.yml .pnp.cjs .pnp.js .pnpmfile.cjs pip.conf .pypirc sitecustomize.py usercustomize.py .netrc"
    " .mcp.json agents.md agents.override.md claude.md claude.local.md"
)
_ENDINGS = (".pth", ".code-workspace")
_FOLDERS = names(
    "/.vscode/ /.idea/ /.devcontainer/ /.direnv/ /.github/workflows/ /.github/actions/ /.gitlab/ /.circleci/ /.woodpecker/"
    " /.buildkite/ /.forgejo/ /.gitea/ /.git/ /.githooks/ /.husky/ /.config/fish/ /.config/autostart/ /.config/systemd/"
    " /.config/environment.d/ /.local/share/systemd/ /library/launchagents/ /.cargo/ /.ssh/ /.codex/ /.agents/ /.claude/ /.cursor/"
)


def runs_later(path: str) -> bool:
    """Whether a shell, an editor, a build service, git or an agent reads this file by itself and does what it says.

    In any case and spelling: some file systems take `.GIT`, `.git.` and `.git ` for the same.
    """
    if not path.isascii():
        path = normalize("NFKC", path)
    parts = [part.rstrip(". ") or part for part in path.casefold().split("/")]
    name = parts[-1]
    return name in _NAMES or name.endswith(_ENDINGS) or any(folder in f"/{'/'.join(parts)}" for folder in _FOLDERS)
