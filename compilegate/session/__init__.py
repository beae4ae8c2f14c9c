"""One pytest session: its options, its plan, its workers and its run file."""
