// SPDX-License-Identifier: Apache-2.0
// async_simple: Lazy<int> and syncAwait, as in the published experiment.
#include <lab/experiments/coroutine_chain/workload.hpp>

#include <async_simple/coro/Lazy.h>
#include <async_simple/coro/SyncAwait.h>

#include <utility>

namespace {

struct async_simple_runtime {
  template <class T>
  using task = async_simple::coro::Lazy<T>;

  int wait(task<int> chain) { return async_simple::coro::syncAwait(std::move(chain)); }
};

}  // namespace

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::coroutines<async_simple_runtime>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv);
}
