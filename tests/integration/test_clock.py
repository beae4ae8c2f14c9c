"""Somebody sets the wall clock by hours, again and again, while a session runs."""

import subprocess

import pytest

from tests.integration.conftest import EXACT, MATVEC

#: Every second another setting, by hours: back in one second, ahead in the next.
_SHIM = """
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

typedef int (*Gettime)(clockid_t, struct timespec *);

static int right(clockid_t id, struct timespec *now) {
  static Gettime real;
  if (!real) real = reinterpret_cast<Gettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  return real(id, now);
}

extern "C" int clock_gettime(clockid_t id, struct timespec *now) {
  struct timespec passed;
  int status = right(id, now);
  if (id == CLOCK_REALTIME && !status && !right(CLOCK_MONOTONIC, &passed))
    now->tv_sec += (passed.tv_sec % 2 ? 3600 : -3600) * (1 + passed.tv_sec % 10000);
  return status;
}

extern "C" time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}

extern "C" int gettimeofday(struct timeval *time, void *) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""


@pytest.fixture
def shim(tmp_path):
    """A library that stands for somebody who sets the clock, in all processes of a session."""
    library = tmp_path / "clock.so"
    words = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library), "-ldl"]
    subprocess.run(words, input=_SHIM, text=True, check=True)
    return library


def test_no_verdict_and_no_duration_depends_on_the_wall_clock(compilegate, shim):
    session = compilegate(
        *(*EXACT, "suites/test_compile_time.py", "suites/test_speedup.py", "--cases", MATVEC),
        *("--case-timeout", "120"),
        env={"LD_PRELOAD": str(shim)},
    )
    assert session.status == 0, session.output
    run = session.run()
    assert run.closing is not None
    assert 0 < run.closing.wall_s < 600
    seen = run.observations[MATVEC]
    assert seen.status == "completed"
    assert 0 < seen.compile_time.total_s <= seen.compile_time.first_call_s + 0.1
    assert all(0 <= seconds < 600 for seconds in seen.spent_s.values())
    assert "failed" not in session.outcomes(MATVEC)
