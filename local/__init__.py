"""SageMaker on a laptop: one process tree, no Docker, no AWS account (docs/local.md)."""
