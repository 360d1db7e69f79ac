"""Workspaces that are made for a conversation, and made again if they are gone.

`git` runs git so that nothing from a repository is executed. `cloning` makes a workspace; `staging` and `snapshots` save its
content after each turn; `saving` does so in the background; `restoring` makes the workspace again from a snapshot. `setup_commands`
prepares a new one, and `workspaces` offers all of this to one engine.
"""
