"""What holds for every test."""

import os

from hypothesis import settings

# A busy machine makes any example slow now and then; how fast things are is measured elsewhere. In CI hypothesis has a
# profile of its own, which is untimed as well and picks the same examples every time.
settings.register_profile("untimed", deadline=None)
if "CI" not in os.environ:
    settings.load_profile("untimed")
