// SPDX-License-Identifier: Apache-2.0
// libcoro: task<int> and sync_wait.
#include <lab/experiments/coroutine_chain/workload.hpp>

#include <coro/sync_wait.hpp>
#include <coro/task.hpp>

#include <utility>

namespace {

struct libcoro_runtime {
  template <class T>
  using task = coro::task<T>;

  int wait(task<int> chain) { return coro::sync_wait(std::move(chain)); }
};

}  // namespace

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::coroutines<libcoro_runtime>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv);
}
