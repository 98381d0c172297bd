"""Following a run from a terminal: telling what it does, asking what it asks, stopping it when somebody says so."""
