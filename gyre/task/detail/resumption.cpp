// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/resumption.hpp>

#include <gyre/base/detail/slab_object.hpp>

#include <new>

namespace gyre::detail {
namespace {

// Owns itself until it has run.
class queued_resumption final : public slab_object, public operation {
 public:
  explicit queued_resumption(std::coroutine_handle<> waiting) noexcept
      : operation(&run), waiting_(waiting) {}

 private:
  static void run(operation& self) {
    auto* const queued = static_cast<queued_resumption*>(&self);
    const std::coroutine_handle<> waiting = queued->waiting_;
    delete queued;
    resume(waiting);
  }

  std::coroutine_handle<> waiting_;
};

}  // namespace

bool post_resumption(std::coroutine_handle<> waiting, executor& target) noexcept {
  try {
    target.post(*new queued_resumption(waiting));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace gyre::detail
