"""The phases of observing a case, each of which returns what it found."""
