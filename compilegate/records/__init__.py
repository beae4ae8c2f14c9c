"""The records that the pytest side and its children write. Standard library only."""
