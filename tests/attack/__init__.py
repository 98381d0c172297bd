"""Attacks on the edges of the framework: each one is tried on the built product, and a broken one fails its test.

A test module names its kind of attack: `pytestmark = pytest.mark.attack("gate")`. `make attack` runs all of them, with
every example where `make test` draws some, and prints for each kind how many were tried and how many held.
"""
