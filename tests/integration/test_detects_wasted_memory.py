"""A compiled call that allocates far more than eager fails ``memory``, and nothing else."""


def test_wasted_memory_fails_memory_only(faulty):
    failed = faulty.failed("wastes_memory")
    assert failed.keys() == {"memory"}
    assert failed["memory"].startswith("peak 16.0 MiB, eager 0.0 MiB")
    assert "at most 1.3× allowed" in failed["memory"]


def test_the_summary_names_what_failed_under_its_aspect(faulty):
    assert faulty.status == 1
    _, _, of_memory = faulty.output.partition("= compilegate: ")[2].partition("\nmemory:\n")
    assert "\n  wastes_memory-cpu-infer-f32-default-static: peak 16.0 MiB" in of_memory
