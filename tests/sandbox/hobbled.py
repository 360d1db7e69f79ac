"""Executes a command on a machine that seems to lack something: `python hobbled.py LIBRARY namespaces,landlock COMMAND…`."""

import os
import struct
import sys

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NEW_USER = 0x10000000


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    from understudy.sandbox.cell import kernel, syscalls

    numbers = syscalls.numbers_for(syscalls.machine())
    missing = sys.argv[2].split(",")
    code = [(_LOAD, 0, 0, 0)]
    if "landlock" in missing:
        code += [(_EQUAL, 0, 1, numbers["landlock_create_ruleset"]), (_RETURN, 0, 0, _ERRNO | 38)]
    if "namespaces" in missing:  # as the default profile of container engines has it
        code += [(_EQUAL, 0, 1, numbers["unshare"]), (_RETURN, 0, 0, _ERRNO | 1)]
        code += [(_EQUAL, 0, 1, numbers["clone3"]), (_RETURN, 0, 0, _ERRNO | 38)]
        code += [(_EQUAL, 0, 4, numbers["clone"]), (_LOAD, 0, 0, 16), (_ANY_BIT, 0, 1, _NEW_USER), (_RETURN, 0, 0, _ERRNO | 1)]
        code += [(_RETURN, 0, 0, _ALLOW)]
    code.append((_RETURN, 0, 0, _ALLOW))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.install_filter(b"".join(struct.pack("<HBBI", *instruction) for instruction in code))
    os.execv(sys.argv[3], sys.argv[3:])


main()
