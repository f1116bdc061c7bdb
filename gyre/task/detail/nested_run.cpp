// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/nested_run.hpp>

#include <utility>

namespace gyre::detail {
namespace {

constinit thread_local const nested_run* innermost_run = nullptr;
constinit thread_local const char thread_mark = 0;

}  // namespace

nested_run::nested_run() noexcept : outer_(std::exchange(innermost_run, this)) {}

void nested_run::end() noexcept { innermost_run = outer_; }

[[gnu::noinline]] const void* current_run() noexcept {
  if (innermost_run != nullptr) return innermost_run;
  return &thread_mark;
}

[[gnu::noinline]] bool is_run_of_this_thread(const void* run) noexcept {
  if (run == &thread_mark) return true;
  const nested_run* candidate = innermost_run;
  while (candidate != nullptr && candidate != run) candidate = candidate->outer_;
  return candidate != nullptr;
}

}  // namespace gyre::detail
