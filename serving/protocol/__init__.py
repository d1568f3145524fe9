"""The Open Inference Protocol (V2), JSON and binary, and what an archive says of its model."""
