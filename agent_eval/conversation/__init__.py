"""Conversations: the loop of turns between an agent and its user, and the model that plays the user."""
