"""The doors for programs.

Shared parts are here: turning exceptions into wire errors (`failures.py`), sinks, sealed data that clients keep, reading of
arguments, and the pipe as a transport. The rooms: `process` (what every server process has), `wire_events` (records as events),
`mcp`, `stdio` (doors on pipes), `acp`, `app_server`, `proto`; over HTTP `http` (requests, answers, who may come in), `mcp_http`,
`rest`, `page`, and `serve`, which combines them.
"""
