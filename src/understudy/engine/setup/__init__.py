"""Turns a configuration into what one turn needs: the model, its instructions and skills, the tools and the sandbox.

Setups that are alike are made once and shared.
"""
