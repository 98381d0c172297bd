"""Questions to people, their answers, and the signals sent to a run."""
