"""Weights that show the computation: a wrong kernel must change what is compared."""
