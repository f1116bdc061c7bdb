// SPDX-License-Identifier: Apache-2.0
// cppcoro: task<int> and sync_wait, as in the published experiment.
#include <lab/experiments/coroutine_chain/workload.hpp>

#include <cppcoro/sync_wait.hpp>
#include <cppcoro/task.hpp>

#include <utility>

namespace {

struct cppcoro_runtime {
  template <class T>
  using task = cppcoro::task<T>;

  int wait(task<int> chain) { return cppcoro::sync_wait(std::move(chain)); }
};

}  // namespace

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::coroutines<cppcoro_runtime>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv);
}
