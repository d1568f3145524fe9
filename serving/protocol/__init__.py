"""The Open Inference Protocol's tensors on the wire: JSON, and Triton's binary form of it."""
