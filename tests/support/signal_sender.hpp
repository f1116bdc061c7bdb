// SPDX-License-Identifier: Apache-2.0
// signal_sender: sends a signal to a thread that waits, from another thread.
#pragma once

#include <tests/support/sanitizers.hpp>

#include <pthread.h>
#include <signal.h>

#include <stop_token>
#include <thread>

namespace gyre::test {

/// `repeatedly`: until the sender is destroyed, where the first signals may come too early.
enum class sends { once, repeatedly };

/// Sends `signal` to `receiver`. ThreadSanitizer holds a signal back until the receiver's next call
/// and may so let it begin a wait before the handler runs: with it, `once` is `repeatedly`.
class signal_sender {
 public:
  signal_sender(pthread_t receiver, int signal, sends times)
      : thread_([=](const std::stop_token& stop) {
          do {
            pthread_kill(receiver, signal);
            std::this_thread::yield();
          } while ((times == sends::repeatedly || thread_sanitizer_is_on) &&
                   !stop.stop_requested());
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace gyre::test
