"""What scripts take from the files of a team: recipes, operators, and what they do to PyTorch."""
