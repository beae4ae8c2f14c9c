"""Which variables a run file holds: known names only, and nothing that may be secret."""

import pytest

from compilegate.records.variables import HIDDEN, decides, shown, stored


def test_only_variables_with_a_known_beginning_are_stored():
    environ = {
        "TORCHINDUCTOR_FREEZING": "1",
        "OMP_NUM_THREADS": "4",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "HOME": "/home/me",
        "AWS_SECRET_ACCESS_KEY": "planted",
        "GITHUB_TOKEN": "planted",
        "MY_TORCH": "planted",
    }
    assert stored(environ) == {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "OMP_NUM_THREADS": "4",
        "TORCHINDUCTOR_FREEZING": "1",
    }


@pytest.mark.parametrize(
    "name",
    ["TORCH_HUB_TOKEN", "CUDA_PASSWORD", "NCCL_AUTH", "TRITON_API_KEY", "TORCH_credential_x"],
)
def test_a_name_that_sounds_like_a_secret_is_stored_without_its_value(name):
    assert stored({name: "planted"}) == {name: HIDDEN}


@pytest.mark.parametrize("name", ["TORCHINDUCTOR_B2B_GEMM_PASS", "OMP_NUM_THREADS", "TORCH_LOGS"])
def test_a_name_that_sounds_like_none_is_stored_with_its_value(name):
    assert stored({name: "1"}) == {name: "1"}


def test_an_address_is_not_stored():
    assert stored({"TORCHINDUCTOR_REDIS_URL": "redis://me:planted@host"}) == {
        "TORCHINDUCTOR_REDIS_URL": HIDDEN
    }


def test_a_long_value_is_cut():
    assert shown("x" * 500) == "x" * 160 + "… (500 characters)"


def test_what_compilegate_sets_itself_is_not_stored():
    assert stored({"TORCH_CPP_LOG_LEVEL": "ERROR", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_HOME",
        "TORCH_HOME",
        "CUDA_PATH",
        "MKLROOT",
        "TORCHINDUCTOR_WORKER_LOGPATH",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_REQUIRE_CUDA",
        "NCCL_VERSION",
        "TORCH_COMPILE_JOB_ID",
        "inductor.trace.debug_dir",
        "dynamo.debug_dir_root",
        "TORCH_LOGS",
        "TORCH_LOGS_OUT",
        "TORCH_LOGS_FORMAT",
        "TORCH_TRACE",
        "TORCHDYNAMO_VERBOSE",
        "dynamo.verbose",
    ],
)
def test_places_labels_and_logs_decide_nothing(name):
    assert not decides(name)


@pytest.mark.parametrize(
    "name",
    [
        "TORCHINDUCTOR_MAX_AUTOTUNE",
        "OMP_NUM_THREADS",
        "CUDA_LAUNCH_BLOCKING",
        "NVIDIA_TF32_OVERRIDE",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TRITON_PTXAS_PATH",
        "TORCH_NCCL_TIMEOUT",
        "ATEN_CPU_CAPABILITY",
        "TORCH_COMPILE_DEBUG",
        "inductor.freezing",
        "functorch.unlift_effect_tokens",
    ],
)
def test_settings_and_tools_decide(name):
    assert decides(name)
