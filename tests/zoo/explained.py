"""Exceptions to the signal test that the architecture of a model explains.

Each row holds a model, a glob on names, and the reason.
"""

_BATCH_NORM = "the next BatchNorm subtracts the offset of a channel, after at most a 1x1 conv"
_LAYER_NORM = "it adds the same number to all channels, and LayerNorm subtracts that number"
_SOFTMAX = "it adds the same number to all arguments of a softmax, which does not change the result"
_POOLING = "the token mixer is pooling minus identity, in which a constant cancels"
_ONE_TOKEN = "at the size on a CPU, one token is left, and its softmax is one"
_UNWRITTEN = "in eager, Conv3d reads uninitialised memory: docs/measurements/findings-notes.md"
_UNIT_NORM = "embeddings have norm one: over 512 components, their standard deviation is 0.044"
_GATE = "it gates channels: its argument is a mean over the image, of another one"
_SPREAD = "the end is three or more standard deviations away"
_SCALE = "the scale of attention starts far below its upper end"
_NEAR = "no two tokens are so far apart that they share a bucket of positions"
_NO_LABEL = "no label is the one that the loss ignores"
_BOXES = "untrained anchors stay inside of the image, or lie outside of it, level by level"
_PIXELS = "boxes are in pixels of an image"

#: Parameters whose gradient is zero or only rounding. All of them are biases.
GRADIENTS = (
    ("mnasnet0_5", "layers.*.layers.7.bias", _BATCH_NORM),
    ("mobilenet_v2", "features.*.conv.[23].bias", _BATCH_NORM),
    ("mobilenet_v3_small", "features.*.block.[23].1.bias", _BATCH_NORM),
    ("shufflenet_v2_x0_5", "stage?.*.branch[12].*.bias", _BATCH_NORM),
    ("efficientnet_b0", "features.*.block.[23].1.bias", _BATCH_NORM),
    ("vgg11_bn", "features.*.bias", _BATCH_NORM),
    ("maxvit_t", "blocks.*.MBconv.layers.pre_norm.bias", _BATCH_NORM),
    ("lraspp_mobilenet_v3_large", "backbone.*.block.[23].1.bias", _BATCH_NORM),
    ("ssdlite320_mobilenet_v3_large", "backbone.features.*.1.bias", _BATCH_NORM),
    ("test_efficientnet", "blocks.*.bn[23].bias", _BATCH_NORM),
    ("mobilenetv4_conv_small_050", "blocks.*.dw_start.bn.bias", _BATCH_NORM),
    ("mobilenetv4_conv_small_050", "blocks.*.pw_proj.bn.bias", _BATCH_NORM),
    ("tf_efficientnet_b0", "blocks.*.bn[23].bias", _BATCH_NORM),
    ("repvit_m0_9", "stages.*.bias", _BATCH_NORM),
    ("hrnet_w18_small", "downsamp_modules.*.0.bias", _BATCH_NORM),
    ("hrnet_w18_small", "final_layer.0.bias", _BATCH_NORM),
    ("levit_128s", "stages.*.ln*.bn.bias", _BATCH_NORM),
    ("mobilevit_xxs", "stages.*.bn.bias", _BATCH_NORM),
    ("mobilevit_xxs", "stages.*.norm.bias", _BATCH_NORM),
    ("mixer_s16_224", "blocks.*.mlp_tokens.fc2.bias", _LAYER_NORM),
    ("poolformer_s12", "stages.*.blocks.*.norm1.bias", _POOLING),
    ("levit_128s", "stages.2.blocks.*.attn.attention_biases", _ONE_TOKEN),
    ("convit_tiny", "blocks.*.attn.pos_proj.bias", _SOFTMAX),
    ("cait_xxs24_224", "blocks.*.attn.proj_l.bias", _SOFTMAX),
    ("cait_xxs24_224", "blocks_token_only.*.attn.k.bias", _SOFTMAX),
    ("xcit_nano_12_p16_224", "cls_attn_blocks.*.attn.k.bias", _SOFTMAX),
    ("distilbert", "*.attention.k_lin.bias", _SOFTMAX),
    ("bert", "*.attention.self.key.bias", _SOFTMAX),
    ("roberta", "*.attention.self.key.bias", _SOFTMAX),
    ("electra", "*.attention.self.key.bias", _SOFTMAX),
    ("bart", "*_attn.k_proj.bias", _SOFTMAX),
    ("clip", "*.self_attn.k_proj.bias", _SOFTMAX),
    ("wav2vec2", "*.attention.k_proj.bias", _SOFTMAX),
)

#: Gradients that may be non-finite in bfloat16.
BF16_GRADIENTS = (("r3d_18", "layer?.*.conv?.0.weight", _UNWRITTEN),)

#: Branches that no number of the first call reaches, each after its phase.
BRANCHES = (
    ("mobilenet_v3_small", "* hardsigmoid *", _GATE),
    ("mobilenet_v3_small", "* hardswish *", _SPREAD),
    ("ssdlite320_mobilenet_v3_large", "* hardsigmoid *", _GATE),
    ("ssdlite320_mobilenet_v3_large", "* hardswish *: below", _SPREAD),
    ("lraspp_mobilenet_v3_large", "* hardswish *: below", _SPREAD),
    ("lcnet_050", "* hardsigmoid *", _GATE),
    ("lcnet_050", "* hardswish *", _SPREAD),
    ("swin_v2_t", "* clamp *: above", _SCALE),
    ("retinanet_losses_and_boxes", "infer clamp *", _BOXES),
    ("t5", "* where 4: false", _NEAR),
    ("squeezenet1_1_labels", "* masked_fill 1: true", _NO_LABEL),
)

#: Outputs whose scale the architecture determines.
OUTPUTS = (
    ("clip", "* output.*_embeds", _UNIT_NORM),
    ("retinanet_losses_and_boxes", "infer output*.boxes", _PIXELS),
)
