// SPDX-License-Identifier: Apache-2.0
// BS::light_thread_pool and detach_task, which makes no future; a queue without a bound.
#include <lab/experiments/pool/workload.hpp>

#include <BS_thread_pool.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace {

class bs_pool {
 public:
  explicit bs_pool(std::uint32_t workers) : pool_(workers) {}

  template <class F>
  bool post(F&& task) {
    pool_.detach_task(std::forward<F>(task));
    return true;
  }

 private:
  BS::light_thread_pool pool_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string version = std::to_string(BS_THREAD_POOL_VERSION_MAJOR) + "." +
                              std::to_string(BS_THREAD_POOL_VERSION_MINOR) + "." +
                              std::to_string(BS_THREAD_POOL_VERSION_PATCH);
  return lab::pool::contender_main<bs_pool>(argc, argv, {{"BS::thread_pool", version}});
}
