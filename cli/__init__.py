"""`streamhub`: thin commands over the core. Each module is one command group; `main` wires them."""
