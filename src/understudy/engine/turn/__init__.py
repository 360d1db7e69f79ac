"""One turn: `turn.py` has the loop, in which `incoming_answer.py` reads what the model says and `tool_calls.py` runs what it
calls.

Budgets, approvals, long commands and the tools of other servers are asked from here. Whoever asks for an answer of a
certain form gets it checked by `answer_form.py`, in a process of its own.
"""
