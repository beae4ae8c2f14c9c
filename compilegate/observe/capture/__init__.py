"""What Dynamo, AOTAutograd, Inductor and CUDA graphs did."""
