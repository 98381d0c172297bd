"""Limits, spending, deadlines and budgets of tenants."""
