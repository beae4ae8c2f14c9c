"""One pytest session: its options, its plan, its workers, its record."""
