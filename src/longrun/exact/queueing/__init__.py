"""Multiclass queueing networks: descriptions, events, exact models."""
