"""The story that `make demo` tells.

| module | what |
|---|---|
| `__main__` | tells it, and checks at the end that it went as it should |
| `repository` | the small repository it is about |
| `process` | one process that drives the assistant; the first one is killed |
| `timeline` | the record of the run as lines |
| `checks` | what must be so at the end |
"""
