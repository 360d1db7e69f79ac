"""The commands.

`main.py` starts servers and `exec` with few imports; everything else goes through `commands.py` and `arguments/`, and a command's
own module is imported when it is called.
"""
