"""One turn: `turn.py` has the loop, `incoming_answer.py` reads what the model says, and `tool_calls.py` runs what it calls.

The turn also asks budgets, approvals, long commands and other servers' tools. If a caller wants an answer of a certain form,
`answer_form.py` checks it in a process of its own.
"""
