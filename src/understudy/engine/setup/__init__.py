"""From a configuration to what one turn needs: the model, its instructions and skills, the tools and the sandbox.

All that is alike is made once.
"""
