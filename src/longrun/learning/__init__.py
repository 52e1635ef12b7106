"""Learning: environments, the update, training, and what is left of a run."""
