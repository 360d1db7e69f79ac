"""How a project's files could interfere with any program: by variables that name them, and by search paths that lead to them."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from posixpath import realpath

from understudy.policy.harmless import PROGRAMS
from understudy.policy.readable import is_inside, resolve
from understudy.policy.words import names


def planted_programs(search_path: str | None, cwd: str, project: tuple[str, ...], others: Iterable[str] = ()) -> frozenset[str]:
    """Names of harmless programs, or of `others`, that exist in a folder of `search_path` inside the project, or relative to `cwd`.

    A repository may contain its own `ls`. Its author, or an earlier command, wrote that, so its name says nothing about what it
    does.
    """
    wanted = PROGRAMS.union(name for name in others if "/" not in name and "\0" not in name)
    planted: frozenset[str] = frozenset()
    for entry in (search_path or "").split(":"):
        folder = resolve(entry or ".", cwd)  # an empty entry means the current folder
        if not entry.startswith("/") or is_inside(folder, project) or is_inside(_real(folder), project):
            planted |= {name for name in wanted if os.path.lexists(os.path.join(folder, name))}
    return planted


@lru_cache(maxsize=256)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


# Lists of folders or files; an empty entry means the current folder.
_LISTS = re.compile(
    r"LD_\w+|DYLD_\w+|PATH|PYTHON\w*PATH|NODE_PATH|PERL5LIB|PERLLIB|RUBYLIB|GEM_(?:HOME|PATH)|CLASSPATH|LUA_C?PATH\w*|GUILE_LOAD_\w*PATH"
    r"|GCONV_PATH|LOCPATH|NLSPATH|TERMINFO_DIRS|XDG_\w+_DIRS|BASH_LOADABLES_PATH|JULIA_LOAD_PATH|TCLLIBPATH|PHPRC|PHP_INI_SCAN_DIR"
)
# One file or folder whose content is executed or obeyed.
_PLACES = re.compile(
    r"HOME|ENV|BASH_ENV|ZDOTDIR|PYTHON(?:STARTUP|HOME|USERBASE|PYCACHEPREFIX)|GIT_(?:\w+_)?(?:DIR|PATH|DIRECTORY|DIRECTORIES)"
    r"|GIT_CONFIG(?:_GLOBAL|_SYSTEM)?|RIPGREP_CONFIG_PATH|TERMINFO|TERMCAP|INPUTRC|LESSKEY\w*|XDG_\w+_HOME|\w*_HOME|LS_COLORS_FILE|MAGIC"
    r"|NPM_CONFIG_(?:\w*CONFIG|PREFIX)|npm_config_(?:\w*config|prefix)|SSL_ENGINE\w*|OPENSSL_(?:CONF|ENGINES|MODULES)|CARGO_HOME|RUSTC\w*"
)
# Options or command lines that may contain such a file.
_SAYINGS = re.compile(
    r"NODE_OPTIONS|PERL5(?:OPT|DB)|RUBYOPT|PYTHON\w+|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|GLIBC_TUNABLES|LESS(?:OPEN|CLOSE)?|\w*PAGER|\w*EDITOR"
    r"|VISUAL|BROWSER|TAR_OPTIONS|GREP_\w+|MAKEFLAGS|GIT_\w+|\w*ASKPASS|(?:CC|CXX|LD|CPP)|LUA_INIT\w*|R_PROFILE\w*|MANOPT|RSYNC_\w+"
)
# Whatever their value, they may change the meaning of a script's words or folders.
_ALWAYS = re.compile(
    r"BASH_FUNC_.*|SHELLOPTS|BASHOPTS|IFS|PS4|CDPATH|PROMPT_COMMAND|GREP_OPTIONS|EXECIGNORE|POSIXLY_CORRECT", re.DOTALL
)

_LIST_BREAKS = re.compile(r"[:;]")
_LOADER_BREAKS = re.compile(r"[:;\s]")  # `LD_PRELOAD` may also be separated by blanks
_WORD_BREAKS = re.compile(r"""[\s:;,=|&<>()"'`$@{}]+""")
_LOADS_A_NAME = re.compile(
    r"(?:-r|-M|-I|-S|--require|--import|--loader|--experimental-loader|-javaagent|-agentpath|-agentlib|-Xbootclasspath|-x|--to-command|-I.*)"
    r"(?:[=:\s].*)?|-[rM]\w.*"
)
_IS_CODE = re.compile(r".*\.(?:js|mjs|cjs|jar|so|py|rb|pm|pl|sh|dylib|class)(?:\.\d+)*", re.IGNORECASE)
_EMPTY_IS_UNSET = names(
    "LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH PYTHONPATH NODE_PATH PERL5LIB RUBYLIB"
)


def steering_variable(environment: Mapping[str, str], cwd: str, project: tuple[str, ...]) -> str | None:
    """The first variable that could run files of the project, or of any folder where a command runs; None if there is none."""
    return next((name for name, value in sorted(environment.items()) if _steers(name, value, cwd, project)), None)


def _steers(name: str, value: str, cwd: str, project: tuple[str, ...]) -> bool:
    if _ALWAYS.fullmatch(name):
        return True
    if _LISTS.fullmatch(name):
        return any(_is_foreign(entry, cwd, project, name=name) for entry in _entries(name, value))
    if name == "HOME" and value in project:
        return False  # if the project is the home folder, start-up files belong there
    if _PLACES.fullmatch(name):
        return value != "" and _is_foreign(value, cwd, project, name=name)
    if _SAYINGS.fullmatch(name):
        words = value.split()
        if any(_LOADS_A_NAME.fullmatch(word) for word in words):
            return True
        return any(_is_file_of_ours(word, cwd, project) for word in _WORD_BREAKS.split(value) if word)
    return False


def _entries(name: str, value: str) -> Iterator[str]:
    if value == "" and name in _EMPTY_IS_UNSET:
        return
    breaks = _LOADER_BREAKS if name.startswith(("LD_", "DYLD_")) else _LIST_BREAKS
    if name in ("LD_PRELOAD", "LD_AUDIT"):
        yield from (entry for entry in breaks.split(value) if entry)
    else:
        yield from breaks.split(value)


def _is_foreign(entry: str, cwd: str, project: tuple[str, ...], *, name: str) -> bool:
    """A place that is relative, or is where a command may write."""
    if not entry.startswith("/"):
        return not (name.startswith(("LD_", "DYLD_")) and "/" not in entry and _is_plain_switch(name, entry))
    if name == "PATH":
        return False  # its programs are checked instead, see `planted_programs`
    return is_inside(resolve(entry, cwd), project) or is_inside(realpath(entry), project)


def _is_plain_switch(name: str, entry: str) -> bool:
    """`LD_BIND_NOW=1`; or a bare name in `LD_PRELOAD`, which is searched in the system's own folders."""
    return entry != "" and not name.endswith("PATH") and name != "LD_AUDIT"


def _is_file_of_ours(word: str, cwd: str, project: tuple[str, ...]) -> bool:
    if word.startswith("/"):
        return is_inside(resolve(word, cwd), project) or is_inside(realpath(word), project)
    return "/" in word or word.startswith((".", "~")) or _IS_CODE.fullmatch(word) is not None
