"""The runs of many nights: series of figures, and the nights on which they changed."""
