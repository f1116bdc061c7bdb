// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/short_lived_thread.hpp>

#include <gyre/base/detail/named_thread.hpp>

#include <exception>
#include <utility>

namespace gyre::detail {

void call_on_short_lived_thread(move_only_function<void()> work) {
  struct {
    move_only_function<void()> work;
    // acquire: pairs with the release store by the library that sets the hooks.
    const short_lived_thread_hooks* hooks =
        short_lived_thread_hooks_in_force.load(std::memory_order_acquire);
    void* state_of_caller = hooks != nullptr ? hooks->state_of_caller() : nullptr;
    std::exception_ptr error = {};
  } call{.work = std::move(work)};
  // The lambda captures one pointer, so that the thread needs no memory for its callable.
  named_thread thread("", {}, [&call] {
    if (call.hooks != nullptr) call.hooks->adopt_state(call.state_of_caller);
    try {
      call.work();
    } catch (...) {
      call.error = std::current_exception();
    }
  });
  thread.join();
  if (call.error) std::rethrow_exception(call.error);
}

}  // namespace gyre::detail
