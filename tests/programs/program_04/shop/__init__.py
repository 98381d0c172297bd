"""A shop whose refunds a person has to allow."""
