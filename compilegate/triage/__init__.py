"""From a red case to a report that the maintainers of PyTorch can act on."""
