// SPDX-License-Identifier: Apache-2.0
// A thread with a small stack: code that grows the stack with each round fails after a few thousand
// rounds, in every build.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <system_error>

namespace gyre::test {

/// Calls `function` on a thread with 256 KiB of stack, and waits for it.
template <class Function>
void on_small_stack(Function function) {
  constexpr std::size_t bytes = std::size_t{256} << 10;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  const int error = pthread_create(
      &thread, &attributes,
      [](void* to_call) -> void* {
        (*static_cast<Function*>(to_call))();
        return nullptr;
      },
      &function);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_create");
  pthread_join(thread, nullptr);
}

}  // namespace gyre::test
