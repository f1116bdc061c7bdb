// SPDX-License-Identifier: Apache-2.0
// folly: coro::Task<int> and blockingWait, as in the published experiment.
#include <lab/experiments/coroutine_chain/workload.hpp>

#include <folly/coro/BlockingWait.h>
#include <folly/coro/Task.h>

#include <utility>

namespace {

struct folly_runtime {
  template <class T>
  using task = folly::coro::Task<T>;

  int wait(task<int> chain) { return folly::coro::blockingWait(std::move(chain)); }
};

}  // namespace

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::coroutines<folly_runtime>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv);
}
