"""Classes written to part A of the contract alone, as an application would have written them for the reference.

They import the contract's names and nothing else of ours, implement no method that part A does not name, and know
nothing of journals, replay or scopes.
"""
