"""What every test shares: how Hypothesis searches.

On a busy machine one example may take long for no fault of its own, so there is no deadline per
example (each test as a whole has its time-out). CI repeats the same examples every time; at a
desk each run looks at new ones.
"""

import os

from hypothesis import settings

settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
