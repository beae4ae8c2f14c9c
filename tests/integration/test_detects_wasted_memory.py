"""A compiled call that allocates far more than eager fails ``memory``, and nothing else."""


def test_wasted_memory_fails_memory_only(faulty):
    failed = faulty.failed("wastes_memory")
    assert failed.keys() == {"memory"}
    assert failed["memory"].startswith("peak 16.0 MiB, eager 120 bytes")
    assert "at most 1.3× allowed" in failed["memory"]


def test_the_summary_names_what_failed_under_its_aspect(faulty):
    assert faulty.status == 1
    summary = faulty.output.partition("-- compilegate --")[2]
    case = "wastes_memory-cpu-infer-f32-default-static"
    assert f"\nmemory:\n  {case}: peak 16.0 MiB" in summary
