"""Runs commands: contained as the policy says, or not contained, and in both cases to the last of their processes."""

TYPE_CHECKING = False  # `typing` itself would slow the start of the helper process
if TYPE_CHECKING:
    from understudy.sandbox.probe import Rung, describe_rungs
    from understudy.sandbox.runner import Sandbox
    from understudy.sandbox.spec import Command, CommandResult, Containment, Limits, RungName

__all__ = ["Command", "CommandResult", "Containment", "Limits", "Rung", "RungName", "Sandbox", "describe_rungs"]


def __getattr__(name: str) -> object:
    """Each from where it is defined, once asked for: whoever imports one module of this folder does not get them all."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from understudy.sandbox import probe, runner, spec

    home = next(module for module in (spec, runner, probe) if hasattr(module, name))
    return getattr(home, name)
