"""From a prompt to a stream of model events, over one of the wires or from a script.

`http_model.open_model` is the way in; `events` says what comes back, `prompt` what is asked, `providers` and `auth` of whom.
"""
