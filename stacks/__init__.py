"""Composition only: which constructs stand together in which stack of a stage."""
