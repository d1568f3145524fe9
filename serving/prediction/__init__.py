"""What a request becomes: parsing, assignment, budget, fallbacks. Pure: no clock, no I/O."""
