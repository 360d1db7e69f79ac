"""Runs commands: contained as the policy says, or not contained, and in both cases to the last of their processes."""

from understudy.sandbox.probe import Rung, describe_rungs
from understudy.sandbox.runner import Sandbox
from understudy.sandbox.spec import Command, CommandResult, Containment, Limits, RungName

__all__ = ["Command", "CommandResult", "Containment", "Limits", "Rung", "RungName", "Sandbox", "describe_rungs"]
