"""Which keys may connect, what each principal may do, and the limits of its use."""
