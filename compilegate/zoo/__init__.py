"""The registry of models, and the choice of their cases by tier and by glob. Imports no torch."""
