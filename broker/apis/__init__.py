"""One file per API key; its docstring is its contract. broker/api_table.py lists them."""
