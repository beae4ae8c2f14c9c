"""The steps of an investigation that follow the search."""
