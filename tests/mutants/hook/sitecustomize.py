"""Changes modules of PyTorch in each process that has this folder on its path."""

import json
import os

if changes := os.environ.get("COMPILEGATE_MUTANT"):
    import mutation

    mutation.install(json.loads(changes))
