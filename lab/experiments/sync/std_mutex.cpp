// SPDX-License-Identifier: Apache-2.0
// Threads without coroutines, and std::mutex, which is not fair: the thread that unlocks may lock
// again before others wake up. With two loops, two threads do two jobs each.
#include <lab/experiments/sync/workload.hpp>

#include <cstdint>
#include <mutex>
#include <span>
#include <thread>

namespace {

using lab::sync::job;

class std_lock {
 public:
  void run_alone(const job& work) {
    for (std::uint64_t i = 0; i < work.locks; ++i) {
      const std::lock_guard guard(mutex_);
      work.shared.enter(work.name);
      work.shared.leave(work.name);
    }
  }

  void run_on_two_loops(std::span<const job> work) {
    const std::jthread other([&] {
      for (const job& each : work.subspan(work.size() / 2)) run_alone(each);
    });
    for (const job& each : work.first(work.size() / 2)) run_alone(each);
  }

 private:
  std::mutex mutex_;
};

}  // namespace

int main(int argc, char** argv) { return lab::sync::contender_main<std_lock>(argc, argv); }
