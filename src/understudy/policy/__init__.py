"""Pure functions from facts to a verdict, with the rule that decided.

May it run (`decide.py`), must a person be asked, and what about (`questions.py`), is it known to be harmless, what may
it know of the environment. Commands are read as words (`words.py`); what cannot be read that way is never harmless.
"""
