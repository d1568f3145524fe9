"""The core: what serving a model means, importable anywhere, without AWS."""
