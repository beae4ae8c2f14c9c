"""The faults: what each does, where it shows, and what must be said of it."""

from __future__ import annotations

from dataclasses import dataclass

INFER = "infer-f32-default-static"
TRAIN = "train-f32-default-static"
INFER_BF16 = "infer-bf16-default-static"
AUTO = "infer-f32-default-auto"
DYNAMIC = "infer-f32-default-dynamic"

#: In *train*, parameters are stepped by their gradients, and how far they moved is compared.
STEPPED = ("forward", "side_effects")

#: An output that is wrong from the first call on: by how much, and where most.
FROM_THE_START = (
    r"call 1 \(.*\): output\S* \(\w+\): (root mean square error|largest error|scale) is .*"
    r"allowed .*\); worst at \[.*\]: compiled \S+, eager \S+, fp64 \S+"
)

#: What depends on the values of an output.
VALUES = ("forward", "gradients", "side_effects", "randomness")

#: The name of no fault.
SOUND = "sound"


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    Attributes:
        name: The name of its plant, and the first part of its models' names.
        does: What compiled code does, in a sentence.
        aspect: The aspect that must fail.
        says: A regular expression that the failure's text must match.
        victim: The tiny victim that the tests plant it in.
        zoo: The victims of the table: models of the shipped zoo.
        setting: Where it shows.
        also: Aspects that may fail besides.
        inductor: Whether only Inductor has what it changes; the others are planted in its
            decomposed graph, whatever runs that.
        shipped: Whether its models are the shipped zoo's as they are, since no others are compiled
            in an empty cache on CPU: it is planted in every model of its session.
    """

    name: str
    does: str
    aspect: str
    says: str
    victim: str = "dense"
    zoo: tuple[str, ...] = ("mlp", "conv_pool_linear")
    setting: str = INFER
    also: tuple[str, ...] = ()
    inductor: bool = False
    shipped: bool = False

    @property
    def victims(self) -> tuple[str, ...]:
        """All that it is planted in."""
        return (self.victim, *self.zoo)

    def case(self, victim: str) -> str:
        """The case in which it shows in a victim."""
        model = victim if self.shipped else f"{self.name}.{victim}"
        return f"{model}-cpu-{self.setting}"

    def twin(self, victim: str) -> str:
        """The same case without the fault."""
        model = victim if self.shipped else f"{SOUND}.{victim}"
        return f"{model}-cpu-{self.setting}"


_VALUES = (
    Fault(
        "one_element",
        "one element of the output is off by 0.01",
        "forward",
        r"output\S* \(float32\): .*; worst at \[1, 1\]: compiled",
    ),
    Fault(
        "one_nan",
        "one element of the output is NaN",
        "forward",
        r"output.*: nonfinite differs: .*compiled nan at \[1, 1\]; 1 not finite",
    ),
    Fault(
        "one_percent",
        "the output is 1% too large",
        "forward",
        r"root mean square error is 0\.01 of its scale",
    ),
    Fault(
        "a_third_percent",
        "the first matrix product or convolution is 0.3% too large",
        "forward",
        r"root mean square error is 0\.00\d+ of its scale .*allowed",
        zoo=("conv_pool_linear", "test_vit", "transformer_encoder"),
    ),
    Fault(
        "constant_changed",
        "a constant of an activation function is off by 0.2%",
        "forward",
        r"root mean square error is \S+ of its scale .*allowed",
        zoo=("mlp", "gpt2"),
    ),
    Fault(
        "layer_norm_epsilon",
        "layer norm adds 1e-3 to the variance, not 1e-5",
        "forward",
        r"root mean square error is \S+ of its scale",
        zoo=("mlp", "test_vit"),
    ),
    Fault(
        "batch_norm_epsilon",
        "batch norm adds 1e-3 to the variance, not 1e-5",
        "forward",
        r"root mean square error is \S+ of its scale",
        victim="convolutional",
        zoo=("test_resnet", "test_efficientnet"),
    ),
    Fault(
        "bias_lost",
        "the last linear layer's bias is not added",
        "forward",
        FROM_THE_START,
    ),
    Fault(
        "residual_lost",
        "the last residual connection is not added",
        "forward",
        FROM_THE_START,
        victim="residual",
        zoo=("attention", "test_resnet"),
    ),
    Fault(
        "shifted_by_one",
        "the first convolution's rows are rolled by one",
        "forward",
        FROM_THE_START,
        victim="convolutional",
        zoo=("conv_pool_linear", "test_resnet"),
    ),
    Fault(
        "bound_halved",
        "the upper bound of a clamp is half of what it should be",
        "forward",
        FROM_THE_START,
        victim="clamped",
        zoo=("lcnet_050", "mobilenet_v3_small"),
    ),
    Fault(
        "index_off_by_one",
        "argmax returns the next index",
        "forward",
        r"output: \w+ differs: eager (\d+) at \[0\], compiled \d+ there; (\d+) of \2 elements",
        victim="choice.dense",
        zoo=("choice.mlp", "choice.conv_pool_linear"),
    ),
    Fault(
        "softmax_without_maximum",
        "softmax does not subtract the maximum, and overflows",
        "forward",
        r"output.*: nonfinite differs: .*compiled nan",
        victim="sharp.dense",
        zoo=("sharp.mlp", "sharp.conv_pool_linear"),
    ),
    Fault(
        "softmax_over_rows",
        "softmax divides by the sum over another dimension",
        "forward",
        FROM_THE_START,
        victim="soft.dense",
        zoo=("soft.mlp", "soft.conv_pool_linear"),
    ),
    Fault(
        "mean_of_one_more",
        "a mean divides by one more than there are",
        "forward",
        FROM_THE_START,
        victim="convolutional",
        zoo=("test_resnet", "test_convnext"),
    ),
    Fault(
        "embedding_of_the_next",
        "an embedding looks up the next row",
        "forward",
        FROM_THE_START,
        victim="reading",
        zoo=("gpt2", "llama"),
    ),
    Fault(
        "attention_mask_lost",
        "attention forgets its mask",
        "forward",
        FROM_THE_START,
        victim="attending",
        zoo=("attention", "llama"),
    ),
    Fault(
        "attention_scale",
        "attention's scale is off by 5%",
        "forward",
        FROM_THE_START,
        victim="attending",
        zoo=("attention", "test_vit"),
    ),
    Fault(
        "matmul_in_bfloat16",
        "the last matrix product rounds an operand to bfloat16",
        "forward",
        r"root mean square error is 0\.00\d+ of its scale",
    ),
    Fault(
        "gelu_of_another_kind",
        "GELU is decomposed as its tanh approximation",
        "forward",
        r"root mean square error is \S+ of its scale",
        zoo=("mlp", "test_vit"),
    ),
    Fault(
        "relu_bug",
        "ReLU is compiled to x + 1 (Inductor's own bug for tests)",
        "forward",
        FROM_THE_START,
        victim="residual",
        zoo=("conv_pool_linear", "test_resnet"),
        inductor=True,
    ),
)

_GRADIENTS = (
    Fault(
        "one_gradient_zero",
        "one weight's gradient is zero",
        "gradients",
        r"gradient \S+weight \(float32\): root mean square error is 1 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "one_gradient_negated",
        "one weight's gradient has the other sign",
        "gradients",
        r"gradient \S+weight \(float32\): root mean square error is 2 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "one_gradient_one_percent",
        "one weight's gradient is 1% too large",
        "gradients",
        r"gradient \S+weight \(float32\): root mean square error is 0\.01 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "gradients_halved",
        "all gradients are half of what they should be",
        "gradients",
        r"gradient \S+ \(float32\): root mean square error is 0\.5 of its scale",
        setting=TRAIN,
        also=STEPPED,
        zoo=("mlp", "test_resnet"),
    ),
    Fault(
        "gradients_of_vectors",
        "the gradients of norms and biases are 10% too small",
        "gradients",
        r"gradient \S+(weight|bias) \(float32\): root mean square error is 0\.1 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "input_gradient_zero",
        "the input's gradient is zero",
        "gradients",
        r"gradient input\[0\] \(float32\): root mean square error is 1 of its scale",
        setting=TRAIN,
        also=STEPPED,
    ),
    Fault(
        "gelu_backward_of_another_kind",
        "GELU's backward is that of its tanh approximation",
        "gradients",
        r"gradient \S+ \(float32\): root mean square error is \S+ of its scale",
        setting=TRAIN,
        also=STEPPED,
        zoo=("mlp", "test_vit"),
    ),
)

_AUTOCAST = (
    Fault(
        "norm_in_low_precision",
        "a norm's variance is taken in bfloat16",
        "forward",
        r"output \(\w+\): (root mean square|largest) error",
        victim="normed_offset",
        zoo=("mlp", "test_vit"),
        setting=INFER_BF16,
    ),
    Fault(
        "output_dtype",
        "the output has another dtype than autocast gives it",
        "forward",
        r"output.*: dtype differs: eager bfloat16, compiled float32",
        setting=INFER_BF16,
    ),
    Fault(
        "accumulated_in_low_precision",
        "matrix products are summed up in bfloat16",
        "forward",
        r"output \(bfloat16\): (root mean square|largest) error",
        victim="projected",
        zoo=("mlp", "conv_pool_linear"),
        setting=INFER_BF16,
    ),
)

_TENSORS = (
    Fault(
        "stride_changed",
        "the output is transposed in memory",
        "forward",
        r"output: stride differs: eager \(\d+, 1\), compiled \(1, \d+\)",
    ),
    Fault(
        "shape_broadcastable",
        "the output has a leading dimension of size 1",
        "forward",
        r"output: shape differs: eager \((\d+), (\d+)\), compiled \(1, \1, \2\)",
    ),
    Fault(
        "alias_lost",
        "an output that is a view of the input is a copy",
        "forward",
        r"output: aliasing differs: eager input\[0\] = output\[1\], compiled no shared memory",
        victim="with_view.dense",
        zoo=("with_view.mlp", "with_view.conv_pool_linear"),
    ),
    Fault(
        "alias_added",
        "two outputs share memory",
        "forward",
        r"output: aliasing differs: .*compiled output\[0\] = output\[1\]",
        victim="with_copy.dense",
        zoo=("with_copy.mlp", "with_copy.conv_pool_linear"),
    ),
    Fault(
        "requires_grad_lost",
        "the output does not require grad",
        "forward",
        r"output: requires_grad differs: eager True, compiled False",
        setting=TRAIN,
        also=VALUES,
    ),
)

_STATE = (
    Fault(
        "statistics_lost",
        "running statistics are not updated",
        "side_effects",
        r"buffer \S*running_mean \(float32\)",
        victim="convolutional",
        zoo=("test_resnet", "test_efficientnet"),
        setting=TRAIN,
    ),
    Fault(
        "statistics_updated_twice",
        "running statistics are updated twice",
        "side_effects",
        r"buffer \S*running_mean \(float32\)",
        victim="convolutional",
        zoo=("test_resnet", "test_efficientnet"),
        setting=TRAIN,
    ),
    Fault(
        "counter_twice",
        "a counter in a buffer is advanced by two",
        "side_effects",
        r"buffer \S*: \w+ differs: eager 1 at \[\], compiled 2 there",
        victim="counting",
        zoo=("test_resnet", "test_efficientnet"),
        setting=TRAIN,
    ),
    Fault(
        "mutation_lost",
        "an input that is changed in place stays as it was",
        "side_effects",
        r"input\[0\] \(float32\): root mean square error is",
        victim="in_place.dense",
        zoo=("in_place.mlp", "in_place.conv_pool_linear"),
    ),
    Fault(
        "input_overwritten",
        "an element of the input is overwritten",
        "side_effects",
        r"input\[0\]: value differs: .* at \[0, .*; 1 of \d+ elements differ",
    ),
    Fault(
        "parameter_overwritten",
        "a parameter is scaled a little at each call",
        "side_effects",
        r"parameter \S+: value differs: .*elements differ",
        also=("forward",),
    ),
    Fault(
        "stale_result",
        "every call returns the first call's result",
        "forward",
        r"call 2 \(batch=\d+\): output",
    ),
    Fault(
        "weights_baked_in",
        "the parameters of the first call are used for ever",
        "forward",
        r"call 2 \(.*\): output",
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "buffer_reused",
        "a later call writes its output over the first one's",
        "side_effects",
        r"call 2 \(.*\): first output: value differs: eager leaves it",
    ),
    Fault(
        "dropout_frozen",
        "dropout draws the same mask in each call",
        "forward",
        r"call 2 \(\S+\): output",
        victim="dropped",
        zoo=("mlp", "distilbert"),
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "dropout_lost",
        "dropout lets everything through",
        "forward",
        FROM_THE_START,
        victim="dropped",
        zoo=("mlp", "transformer_encoder"),
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "dropout_not_rescaled",
        "dropout does not scale up what it lets through",
        "forward",
        FROM_THE_START,
        victim="dropped",
        zoo=("mlp", "transformer_encoder"),
        setting=TRAIN,
        also=VALUES,
    ),
    Fault(
        "generator_put_back",
        "random numbers are drawn, but the generator stays where it was",
        "side_effects",
        r"random generator",
        victim="dropped",
        zoo=("mlp", "transformer_encoder"),
        setting=TRAIN,
        also=("randomness",),
    ),
    Fault(
        "dropout_rate",
        "dropout's own masks drop half as often as they should",
        "randomness",
        r"spread of the outputs between calls is|outputs' mean over calls is",
        victim="dropped",
        zoo=("mlp", "transformer_encoder"),
        setting=TRAIN,
    ),
    Fault(
        "mask_shared_by_rows",
        "dropout's own masks are the same for every row of a batch",
        "randomness",
        r"joint spread of a batch's rows is",
        victim="dropped",
        zoo=("mlp", "transformer_encoder"),
        setting=TRAIN,
    ),
    Fault(
        "another_mask_in_backward",
        "the backward's own masks are not the forward's",
        "randomness",
        r"backward and forward use different random numbers",
        victim="dropped",
        zoo=("mlp", "transformer_encoder"),
        setting=TRAIN,
    ),
)

_SIZES = (
    Fault(
        "size_baked_in",
        "a mean divides by the first call's size",
        "forward",
        r"call 3 \(batch=\d+.*\): output",
        setting=DYNAMIC,
    ),
    Fault(
        "rows_beyond_the_first_size",
        "rows beyond the first call's size are zero",
        "forward",
        r"call 4 \(batch=\d+.*\): output",
        setting=DYNAMIC,
    ),
    Fault(
        "size_specialized",
        "a dynamic size is specialized while it is compiled",
        "recompiles",
        r"2 recompilations of one code object, 0 allowed for 'dynamic'",
        setting=DYNAMIC,
    ),
    Fault(
        "automatic_dynamic_lost",
        "sizes that vary are compiled one by one",
        "recompiles",
        r"2 recompilations of one code object, 1 allowed for 'auto'",
        setting=AUTO,
    ),
    Fault(
        "limit_hit",
        "the recompile limit is hit at the second size",
        "recompiles",
        r"recompile limit hit",
    ),
    Fault(
        "eager_at_other_sizes",
        "sizes other than the first run eagerly",
        "recompiles",
        r"call 3 .*eager",
    ),
    Fault(
        "compiled_at_each_call",
        "each call is compiled anew",
        "recompiles",
        r"\d recompilations of one code object, 0 allowed for 'dynamic'",
        setting=DYNAMIC,
    ),
)

_CAPTURE = (
    Fault(
        "nothing_compiled",
        "torch.compile does nothing",
        "graph_breaks",
        r"nothing was compiled: all of it ran eagerly",
        also=("forward", "gradients", "side_effects", "recompiles", "randomness"),
    ),
    Fault(
        "eager_without_a_word",
        "the backend fails, and its error is suppressed",
        "graph_breaks",
        r"nothing was compiled: all of it ran eagerly",
        also=("forward", "gradients", "side_effects", "recompiles", "randomness"),
    ),
    Fault(
        "graph_broken",
        "the graph breaks at attention",
        "graph_breaks",
        r"graph breaks? not budgeted",
        victim="attending",
        zoo=("attention", "gpt2"),
    ),
)

#: Faults of values, state and capture: verdicts that do not depend on how busy a machine is.
FAULTS = (*_VALUES, *_GRADIENTS, *_AUTOCAST, *_TENSORS, *_STATE, *_SIZES, *_CAPTURE)

#: Faults of cost, judged against what the sound twin was measured to cost.
COSTS = (
    Fault(
        "slower_by_a_third",
        "a call takes a third longer",
        "speedup",
        r"[\d.]+× \[[\d.]+, [\d.]+\] over \d+ rounds, at least [\d.]+× wanted",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
    ),
    Fault(
        "twice_as_slow",
        "a call takes twice as long",
        "speedup",
        r"[\d.]+× \[[\d.]+, [\d.]+\] over \d+ rounds, at least [\d.]+× wanted",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
        also=("memory",),
    ),
    Fault(
        "nothing_freed",
        "a call keeps room for all its results till its end",
        "memory",
        r"peak [\d.]+ MiB, eager [\d.]+ MiB \([\d.]+×\), at most [\d.]+× allowed",
        victim="deep",
        zoo=("transformer_encoder", "test_vit"),
        also=("speedup",),
    ),
    Fault(
        "compiles_longer",
        "compiling takes ten seconds longer",
        "compile_time",
        r"1\d\.\d s \(dynamo .*\), at most [\d.]+ s allowed",
        victim="matvec",
        zoo=("matvec", "test_vit"),
        shipped=True,
    ),
)
