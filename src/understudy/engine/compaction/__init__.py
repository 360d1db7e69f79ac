"""Making room in a model's context.

`limits.py` says whether a context is too long, `keeping.py` is the part that every turn uses, and `compactor.py` acts: first it
drops old outputs, then it asks the model for a summary. `plan.py` plans what stays, as a pure function.

`History` is the part of the state that a model is sent: items with the records they came from, after a prefix that is pinned in the
log (`RequestSent.context`). Requests only grow at their end, for the provider's cache.

Before each request, `limits.py` compares the provider's last count with the limit. If a model is in no table, its provider is asked
for its window after the first answer (`provider_window.py`). When the limit is reached, or the provider has refused a request for
its length, `compactor.py` acts (intent: `CompactionStarted`). The outcome is one record, `Compacted`, which names the records that
are still sent. The fold applies it, so a fork to an earlier point has the whole history. A crash or an interrupt in between leaves
the history as it was.

The op `Compact` asks for a summary: a running turn makes it between two requests or at its end, an idle conversation in a turn
without a message (`TurnStarted.compacts`).
"""
