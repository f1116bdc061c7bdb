// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/resumption.hpp>

#include <gyre/base/detail/slab_object.hpp>

#include <new>

namespace gyre::detail {
namespace {

// A resumption in memory of its own, which deletes itself when it runs.
struct queued_resumption final : slab_object, operation {
  explicit queued_resumption(std::coroutine_handle<> coroutine) noexcept
      : operation([](operation& self) {
          auto* const own_operation = static_cast<queued_resumption*>(&self);
          const std::coroutine_handle<> handle = own_operation->waiting;
          delete own_operation;
          resume(handle);
        }),
        waiting(coroutine) {}

  const std::coroutine_handle<> waiting;
};

}  // namespace

bool post_resumption(std::coroutine_handle<> coroutine, executor& target) noexcept {
  try {
    target.post(*new queued_resumption(coroutine));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace gyre::detail
