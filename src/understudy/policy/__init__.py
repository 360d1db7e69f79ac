"""Pure functions that turn facts into a verdict and the rule that gave it.

May it run (`decide.py`)? Must a person be asked, and what (`questions.py`)? Is it known to be harmless (`harmless.py`)? Which
variables may it have (`environment.py`)? Commands are read as words (`words.py`); what cannot be read so is never harmless.
"""
