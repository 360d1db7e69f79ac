"""Patches: found in a command (`invocation`), read (`grammar`), checked against the disk (`plan`), judged by place (`placement`),
written through one door (`door`, `commit`), and shown (`unified`, `turn_diff`)."""
