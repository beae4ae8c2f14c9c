"""What parent and child write down. Standard library only."""
