"""What all tests share."""

from hypothesis import settings

# The machines are noisy: a slow example is no bug.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
