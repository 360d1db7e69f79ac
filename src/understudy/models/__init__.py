"""From a prompt to a stream of model events, over either wire or from a script.

`client.open_model` is the way in; `events` says what comes back, `prompt` what is asked, `providers` and `auth` of whom.
"""
