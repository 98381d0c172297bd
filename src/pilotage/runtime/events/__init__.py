"""The events of a run: log, live feed, subscriptions, projections."""
