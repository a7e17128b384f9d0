"""One file per API key; its docstring is its contract. broker/dispatch.py lists them."""
