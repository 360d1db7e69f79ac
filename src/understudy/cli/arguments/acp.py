"""The command that editors start."""

from understudy.cli.arguments.adding import CommandParsers, add, add_overrides
from understudy.config.pages import page_path


def add_acp(commands: CommandParsers) -> None:
    server = add(
        commands,
        "acp",
        "acp",
        "serve the Agent Client Protocol of editors on standard input and output",
        more=f"Editors start it; {page_path('clients.md')} says what to put into their settings.",
    )
    add_overrides(server)
