// SPDX-License-Identifier: Apache-2.0
// gyre: task<int> and sync_wait.
#include <gyre/base/slab.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/coroutine_chain/workload.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace {

/// A parameter of the coroutine whose frame is measured: see frame_bytes().
struct watched {};

struct gyre_runtime {
  template <class T>
  using task = gyre::task<T>;

  int wait(task<int> chain) { return gyre::sync_wait(std::move(chain)); }

  /// Frames come from slabs, which are mapped, instead of malloc.
  static std::uint64_t mappings() { return gyre::read_slab_stats().slabs_mapped; }
  static std::size_t frame_bytes();
};

}  // namespace

template <>
struct std::coroutine_traits<gyre::task<int>, watched> {
  struct promise_type : gyre::task<int>::promise_type {
    static void* operator new(std::size_t bytes) {
      last_bytes = bytes;
      return gyre::task<int>::promise_type::operator new(bytes);
    }
    static inline std::size_t last_bytes = 0;
  };
};

namespace {

gyre::task<int> watched_link(watched) {
  co_return 1 + co_await lab::coroutine_chain::ready<gyre_runtime>();
}

std::size_t gyre_runtime::frame_bytes() {
  gyre::sync_wait(watched_link({}));
  return std::coroutine_traits<gyre::task<int>, watched>::promise_type::last_bytes;
}

}  // namespace

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::coroutines<gyre_runtime>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv);
}
