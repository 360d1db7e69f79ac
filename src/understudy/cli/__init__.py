"""The commands.

`main.py` keeps the way of the servers and of `exec` short; everything else goes through `commands.py` and `arguments/`,
and a command's own module is imported when it is called.
"""
