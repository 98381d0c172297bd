"""One run: start, claim, composition, attempt, ending, supervision."""
