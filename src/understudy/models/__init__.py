"""Turns a prompt into a stream of model events, over one of the wires or from a script.

Begin at `http_model.open_model`. `model` says what is asked and what comes back; `providers` and `auth` say whom we ask.
"""
