"""Modules that libraries import at their top and that a server hardly ever uses: loaded once one of their names is asked for.

As `importlib.util.LazyLoader` does, with two differences. Two threads that ask at once are safe, which holds there only
since Python 3.12. And a name that is asked for on every start, and whose answer is known, can be given without loading.
"""

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import FunctionType, GeneratorType, ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:  # it brings much with it
    from importlib.abc import Loader

_CO_COROUTINE = 0x80  # as inspect has it
_SYSTEMS = {"linux": "Linux", "darwin": "Darwin"}

Known = Mapping[str, Callable[..., Any]]

_loading = RLock()


def _is_generator(thing: object) -> bool:
    return isinstance(thing, GeneratorType)


def _is_coroutine_function(thing: Any) -> bool:
    if type(thing) is FunctionType and not thing.__dict__:  # else it may be wrapped or marked
        return bool(thing.__code__.co_flags & _CO_COROUTINE)
    import inspect

    load(inspect)
    return inspect.iscoroutinefunction(thing)


def _quote_from_bytes(*given: Any, **options: Any) -> str:
    import urllib.parse

    load(urllib.parse)
    return urllib.parse.quote_from_bytes(*given, **options)


# What each is asked for while uvloop and the standard library are imported, and answers without being loaded.
SELDOM_USED: Mapping[str, Known] = {
    "asyncio.sslproto": {},
    "asyncio.staggered": {},
    "fnmatch": {},
    "inspect": {"isgenerator": _is_generator, "iscoroutinefunction": _is_coroutine_function},
    "linecache": {},
    "locale": {},
    "msgspec.inspect": {},
    "platform": {"system": lambda: _SYSTEMS[sys.platform]} if sys.platform in _SYSTEMS else {},
    "textwrap": {},
    "urllib.parse": {"quote_from_bytes": _quote_from_bytes},
}
_NOT_NEEDED = frozenset(("typing_extensions",))  # msgspec takes it where it is installed, and what it wants is in typing


@contextmanager
def loaded_late(modules: Mapping[str, Known] = SELDOM_USED) -> Generator[None]:
    """Within, importing one of these costs next to nothing. What is loaded already stays as it is."""
    finder = _Finder(modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def load(module: ModuleType) -> None:
    """What stands for a module becomes it; any other is left alone."""
    with _loading:
        spec = module.__spec__
        if spec is not None and isinstance(spec.loader, _Loader):
            spec.loader.load(module, spec)


class LateModule(ModuleType):
    """Stands for a module until it is needed, and is that module from then on."""

    def __getattr__(self, name: str) -> Any:
        if name != "__path__":  # what `from module import name` asks for first; a package would have it
            load(self)
        return ModuleType.__getattribute__(self, name)


class _Finder:
    def __init__(self, modules: Mapping[str, Known]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in _NOT_NEEDED:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        known = self._modules.get(fullname)
        if known is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, known).as_loader
        return spec


class _Loader:
    def __init__(self, real: "Loader", known: Known) -> None:
        self._real = real
        self._known = known

    @property
    def as_loader(self) -> "Loader":  # a loader by what it does
        return cast(Any, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = LateModule
        module.__dict__.update(self._known)

    def load(self, module: ModuleType, spec: ModuleSpec) -> None:
        spec.loader = module.__loader__ = self._real  # whoever asks meanwhile, in this thread, must not load it again
        try:
            self._real.exec_module(module)
        except BaseException:
            spec.loader = module.__loader__ = self.as_loader
            raise
        object.__setattr__(module, "__class__", ModuleType)
