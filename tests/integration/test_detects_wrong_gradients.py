"""Gradients that only compiled code gets wrong fail ``gradients``, and nothing else."""


def test_a_doubled_gradient_of_a_right_output_fails_gradients_only(faulty):
    failed = faulty.failed("gradient_is_doubled")
    assert failed.keys() == {"gradients"}
    assert "gradient linear.weight (float32): root mean square error is 1 of" in failed["gradients"]
    (verdict,) = [v for v in faulty.verdicts("gradient_is_doubled").values() if v.details]
    assert any("gradient input[0]" in line for line in verdict.details)


def test_a_gradient_that_does_not_arrive_fails_gradients_only(faulty):
    failed = faulty.failed("gradient_is_lost")
    assert failed.keys() == {"gradients"}
    assert "gradient bias: value differs: eager a tensor, compiled None" in failed["gradients"]


def test_gradients_are_judged_in_training_only(faulty):
    assert "gradients" in faulty.verdicts("sound-cpu-train-f32-default-static")
    assert "gradients" not in faulty.verdicts("sound-cpu-infer-f32-default-static")
