"""Patches: found in a command (`invocation`), parsed (`grammar`), checked against the disk (`plan`), judged by place (`placement`),
written through one door (`door`, `commit`), and shown (`unified`, `turn_diff`)."""
