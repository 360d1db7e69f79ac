"""Making room in a model's context.

`limits.py` says whether a context is too long, `keeping.py` stands in the turn, `compactor.py` acts: old outputs are
dropped first, then the model is asked for a summary, by the pure plan in `plan.py`. The outcome is one record,
`Compacted`.

`History` is the part of the fold that a model is sent: items with the records they came from, behind a prefix that is
pinned in the log (`RequestSent.context`). Requests only grow at their end, for the provider's cache. All that follows
is in `engine/compaction`. Before each request, `limits.py` compares the provider's last count with the limit; a model
that is in no table has the window that its provider tells (`provider_window.py`, asked behind the first answer).
Where it is reached, or the provider has refused a request for its length, `compactor.py` acts: it drops old outputs,
or asks the model for a summary (intent: `CompactionStarted`). `plan.py` plans, as a pure function, what stays. The
outcome is one record, `Compacted`, which names the records that are still sent; the fold applies it, so a fork to
before it has the whole history. A crash or an interrupt in between leaves the history as it was. The op `Compact`
asks for a summary: a running turn makes it between two requests or at its end, an idle conversation in a turn without
a message (`TurnStarted.compacts`).
"""
