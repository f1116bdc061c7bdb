// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/executor.hpp>

#include <gyre/base/intrusive_queue.hpp>

#include <utility>

namespace gyre {
namespace {

class inline_executor_type final : public executor {
 public:
  void post(operation& op) noexcept override {
    operations_.push_back(op);
    if (!std::exchange(is_running_, true)) {
      while (operation* front = operations_.pop_front()) front->execute();
      is_running_ = false;
    }
  }
  bool running_here() const noexcept override { return true; }

 private:
  // Each thread has a queue of its own, although all threads share the executor.
  static inline constinit thread_local intrusive_queue<operation> operations_;
  static inline constinit thread_local bool is_running_ = false;
};

constinit inline_executor_type the_inline_executor;

}  // namespace

executor& inline_executor() noexcept { return the_inline_executor; }

}  // namespace gyre
