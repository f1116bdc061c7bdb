// SPDX-License-Identifier: Apache-2.0
// folly::CPUThreadPoolExecutor with its default queue, which is unbounded and wakes workers through
// a semaphore, last in first out.
#include <lab/experiments/pool/workload.hpp>

#include <folly/executors/CPUThreadPoolExecutor.h>

#include <cstdint>
#include <utility>

namespace {

class folly_pool {
 public:
  explicit folly_pool(std::uint32_t workers) : pool_(workers) {}

  template <class F>
  bool post(F&& task) {
    pool_.add(std::forward<F>(task));
    return true;
  }

 private:
  folly::CPUThreadPoolExecutor pool_;
};

}  // namespace

int main(int argc, char** argv) { return lab::pool::contender_main<folly_pool>(argc, argv); }
