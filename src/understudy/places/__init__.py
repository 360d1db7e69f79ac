"""Which files may be touched for a model.

When a conversation begins, its folders are resolved once and pinned by device and inode, so they hold after a restart.
`Places` is asked by everyone who touches a file for a model; what is opened is compared with what was pinned, masks are
never read, and `doer.py` does it with the rights that a command would have. `walking.py` and `placeholders.py` are also
loaded by the sandbox's helper process, so they stay lean.
"""
