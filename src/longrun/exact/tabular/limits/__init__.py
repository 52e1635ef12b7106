"""The best gain among the policies that keep limits on their costs, between certified bounds."""
