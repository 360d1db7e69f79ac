"""Commands that run something as the agent would, or say what would be decided: `sandbox`, `policy`, `apply-patch`, `bench-
agent`.
"""
