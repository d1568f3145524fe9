"""The checks by topic; each is a pure function from plan and account to findings."""
