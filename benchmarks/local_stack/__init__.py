"""What InvokeEndpoint through the local stack adds to the model server alone, and what botocore costs on top.

.venv/bin/streamhub bench local
"""
