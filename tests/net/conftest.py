"""The certificate authority that the tests of models have, too."""

from tests.models.conftest import authority

__all__ = ["authority"]
