"""Whether the tests that take long run, too: ``make test-long`` asks for them by ``BACKSTORY_LONG_TESTS=1``."""

import os
from typing import Final

LONG_TESTS: Final = os.environ.get("BACKSTORY_LONG_TESTS") == "1"
