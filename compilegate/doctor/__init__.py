"""What a runner must have, and whether this machine has it."""
