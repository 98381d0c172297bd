"""The demo: `make demo`.

| module | what |
|---|---|
| `__main__` | runs the parts, and checks the result |
| `repository` | the small repository that the assistant works on |
| `process` | one process that drives the assistant; the first one is killed |
| `timeline` | the record of the run: its exceptional actions, and how many others there are |
| `checks` | what must hold at the end |
"""
