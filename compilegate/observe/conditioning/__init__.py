"""Signal: weights under which a model shows its computation."""
