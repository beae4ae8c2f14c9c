"""The modules of the shipped zoo: the families of its models, and its known bugs and hazards."""

#: The modules of the shipped zoo. Each but those of regressions and hazards holds one family.
FAMILIES = (
    "tutorials",
    "recommenders",
    "attention_kernels",
    "custom_operators",
    *("torchvision_convnets", "torchvision_transformers", "torchvision_tasks"),
    *("timm_convnets", "timm_transformers"),
    "transformers_encoders",
    "transformers_decoders",
    "transformers_multimodal",
    "diffusers_denoisers",
    "fitted_classifiers",
    "regressions_values",
    "regressions_gradients",
    "regressions_state",
    "regressions_compile",
    "regressions_unreported",
    "regressions_unreported_gradients",
    "caches_known_bugs",
    "hazards_control",
    "hazards_known_bugs",
    "hazards_recompiling",
    "hazards_side_effects",
    "hazards_state",
    "hazards_tensors",
)
