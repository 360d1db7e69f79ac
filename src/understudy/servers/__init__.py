"""The doors for programs.

What several of them share stands here: where an exception becomes a wire error (`failures.py`), sinks, sealed things
that clients keep, reading of arguments, the pipe as a transport. The rooms: `process` (what every server process has),
`wire_events` (records as events), `mcp`, `stdio` (doors on pipes), `acp`, `app_server`, `proto`; over HTTP `http`
(requests, answers, who may come in), `mcp_http`, `rest`, `page`, and `serve`, which puts them together.
"""
