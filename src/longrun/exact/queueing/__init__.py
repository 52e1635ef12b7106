"""Multiclass queueing networks: descriptions, exact models, classical policies."""
