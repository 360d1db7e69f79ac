"""Workspaces that are made for a conversation, and made again where they are gone.

`git` runs git so that nothing of a repository is executed, `cloning` makes a workspace, `staging` and `snapshots` keep what is in
it after each turn, `restoring` makes it again from that, `saving` does so behind the turns, `setup_commands` runs what prepares a
new one, and `workspaces` is all of it for one engine.
"""
