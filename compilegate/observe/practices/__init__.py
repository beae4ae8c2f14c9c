"""What people do with a compiled model other than calling it: one module a practice."""
