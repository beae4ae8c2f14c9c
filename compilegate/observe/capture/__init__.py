"""Records what Dynamo, AOTAutograd, Inductor and CUDA graphs did."""
