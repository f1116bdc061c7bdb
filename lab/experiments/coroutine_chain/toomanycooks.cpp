// SPDX-License-Identifier: Apache-2.0
// TooManyCooks: task<int> on its single-threaded executor, which this thread runs.
#define TMC_IMPL
#include <lab/experiments/coroutine_chain/workload.hpp>

#include <tmc/ex_manual_st.hpp>
#include <tmc/sync.hpp>
#include <tmc/task.hpp>

#include <utility>

namespace {

class tmc_runtime {
 public:
  template <class T>
  using task = tmc::task<T>;

  tmc_runtime() { executor_.init(); }

  int wait(task<int> chain) {
    auto value = tmc::post_waitable(executor_, std::move(chain));
    executor_.run_all();
    return value.get();
  }

 private:
  tmc::ex_manual_st executor_;
};

}  // namespace

int main(int argc, char** argv) {
  using chain = lab::coroutine_chain::coroutines<tmc_runtime>;
  return lab::coroutine_chain::contender_main<chain>(argc, argv, {{"TooManyCooks", "1.7"}});
}
