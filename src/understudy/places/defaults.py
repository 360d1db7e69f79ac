"""What is masked and protected when the user says nothing. Each entry can be opened by its name with a `!` before it."""

MASK = (
    "~/.ssh",
    "~/.aws",
    "~/.gnupg",
    "~/.netrc",
    "~/.git-credentials",
    "~/.config/gh",
    "~/.kube",
    "~/.docker/config.json",
)

# Kept as they are wherever they stand. In a home folder, where shells look for them, missing ones cannot be made either.
START_UP = (".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin")

# What agents are told by a folder. Kept as they are where they stand: to write the first one is an everyday request.
INSTRUCTIONS = ("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md")

PROTECT = (
    ".git",
    ".codex",
    ".agents",
    ".claude",
    ".mcp.json",
    ".gitmodules",
    ".vscode",
    ".idea",
    ".envrc",
    *INSTRUCTIONS,
    *START_UP,
)
