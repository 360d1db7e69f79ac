"""Which files may be touched for a model.

When a conversation begins, its folders are resolved once and pinned by device and inode, so they stay the same after a restart.
Whoever touches a file for a model asks `Places`: opened files are compared with what was pinned, masked files are never read, and
`doer.py` does the work with the rights that a command would have. The sandbox's helper also imports `walking.py` and
`placeholders.py`, so they import little.
"""
