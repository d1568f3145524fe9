"""One look at an account, for `serving.preflight` to compare: nothing here decides, and nothing here changes AWS."""
