"""Feature views: packed rows in a cache, how fresh they are, and the model input made of them."""
