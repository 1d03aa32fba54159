"""What every test shares: how Hypothesis searches, what Ctrl-C means, the watch over secrets.

On a busy machine one example may take long for no fault of its own, so there is no deadline per
example (each test as a whole has its time-out). CI repeats the same examples every time; at a
desk each run looks at new ones.
"""

import os
import signal

from hypothesis import settings

# Hooks and a fixture: secrets that tests make are searched for when all of them have run.
from tests.canary_watch import canary as canary
from tests.canary_watch import folders_of_tests as folders_of_tests
from tests.canary_watch import pytest_configure as pytest_configure

settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# A shell that runs this in the background has it ignore SIGINT, and whatever it starts inherits
# that. Tests of Ctrl-C are about processes as a terminal starts them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
