"""The use cases of the architecture, one module each, through public APIs and with real parts: a real database file, a
model that answers, real processes, real HTTP. `docs/explanation/use-cases.md` says which is which.
"""
