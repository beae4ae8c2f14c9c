"""The registry of models, and which of their cases a tier selects. Imports no torch."""
