"""Runs commands: contained as the policy says, or not contained, and in both cases to the last of their processes.

MOUNTS OF A COMMAND

On the rung `full` a command sees the machine's files through mounts of its own: everything read-only but its roots,
and in the roots a mount on each name that is kept from it. A protected name is bound on itself, read-only. A masked
one is covered by something empty. A folder on the way, a link on the way and a root inside a root are bound on
themselves, so that the command cannot rename them. The mounts belong to one command and are made when it is known
(`cell/mounts.py`, `cell/protect.py`); a cell that waits has none.

A mount lies on what stands at a name, not on the name. Programs outside the cell do not see it. When they replace or
remove what it lies on, the kernel drops it; when they rename that (or exchange it), the mount goes along. Either way
the name is free inside. No kind of mount survives this, so it has to be seen:
- The kernel counts a dropped mount as a change of the table of mounts of that namespace: `poll` on
  `/proc/self/mountinfo`, opened by process 1 of the cell, wakes with `POLLPRI` within some 0.1 ms of the rename.
  inotify with `IN_MOVED_FROM` alone, on the few folders that have such names, tells of what is moved away. Both are
  only hints. The answer is `statx` of each name from the folder that is held open: is the mount on it still the one
  that was put there (`cell/exposure.py`)? Another one of ours may lie there instead, which keeps the command from
  less: where two such names were exchanged. So renames further up do no harm, and events of other names cost a look,
  one in 5 ms at most. Where inotify is not to be had, the look is taken four times a second. Where the folder is
  closed to `statx` (its owner's command can close it, and open it again for a moment), the table of mounts answers.
  The first look is taken before the command is executed, since nobody tells what happened before there was a watch.
- Process 1 then kills everything in its PID namespace, without asking anybody, and tells the server which path it
  was. The server puts that into the result, the log and what the model is told. On the rung `bubblewrap` the process
  above does the same by device and inode, and on `landlock` for masked names that did not exist. When the command is
  over, a hint that nobody has looked at yet is looked at.
- Our own doors (`tools/acts/patches.py`, `undoing.py`) ask the sandbox which of its commands are kept from a path
  (`sandbox/runner.py`), name them in the question and end them before they change it. Other servers on the same
  folder see the change by the watch. This costs nothing where no command runs.

What it costs: three system calls for each command with roots (`open` of mountinfo, `inotify_init1`, and one
`inotify_add_watch` for each folder that has such names), and nothing while it runs.

What was considered and left out:
- To mount anew and let it go on. A helper could enter the namespaces and do it while everything is stopped. But what
  was opened for writing in between stays open (and mapped), and nobody can take it back. A command that is ended can
  be started again.
- To stop first and look then. SIGKILL is as quick as SIGSTOP, and programs notice SIGCONT. The look costs less than
  either.
- Landlock as a second wall. Its rights are granted beneath a folder and cannot be taken back for one name; granted
  for the entries of a root only, they keep a command from the files that it makes there. Outside the roots it is that
  second wall for masks.
- Names that cannot become free: a frame of bound entries, or an overlay. In a frame new names stay in the frame and a
  rename over an entry fails (EBUSY); under an overlay a running command sees no later save of an editor, `flock` is
  granted twice, folders cannot be renamed and inodes differ.
- Answering each `open` from outside (fanotify permissions, seccomp notifications): the first needs the machine's
  root, the second cannot trust the path that it reads, and both cost every command.

Placeholders. A mount needs something to lie on, so while a command runs a real empty folder stands for each missing
protected name (`cell/placeholder.py`). Nobody outside would see it only if it were in a layer of its own, which is
the overlay again. They are folders also where a file is meant: git shows no empty folder, but would show an empty
file in `git status` and take it into a commit by `git add -A`. A socket would be shown by neither, but cannot be
locked, and the shared lock is what tells who still needs it. Our own tools and patches take a placeholder for
nothing. On the rung `bubblewrap` the process above it makes and removes them (`cell/covering.py`).

What may be built on this. Namespaces that are kept for speed may keep what does not lie in a root (`/dev`, `/proc`,
`/run`, masks outside): mounts in the roots are made for each command, and the watch is opened with them, so a kept
namespace never has a mount that nobody watches. Rewind and staged commands need the changes of one command apart from
what others do. They take a layer of their own (an overlay or a copy) as another shape of plan, for single commands
that are awaited: never under a session, and never by default, for the reasons above.
"""

TYPE_CHECKING = False  # importing `typing` itself would slow the start of the helper process
if TYPE_CHECKING:
    from understudy.sandbox.probe import Rung, describe_rungs
    from understudy.sandbox.runner import Sandbox
    from understudy.sandbox.spec import Command, CommandResult, Containment, Limits, RungName

__all__ = ["Command", "CommandResult", "Containment", "Limits", "Rung", "RungName", "Sandbox", "describe_rungs"]


def __getattr__(name: str) -> object:
    """Import each name when it is first asked for, so that importing one module of this folder does not import all."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from understudy.sandbox import probe, runner, spec

    home = next(module for module in (spec, runner, probe) if hasattr(module, name))
    return getattr(home, name)
