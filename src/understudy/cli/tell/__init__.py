"""Shows things to a person: records and live conversations as text, questions, lists, and the terminal itself."""
