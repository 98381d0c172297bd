"""Fitting a model request to its context budget."""
