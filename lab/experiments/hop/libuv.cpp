// SPDX-License-Identifier: Apache-2.0
// libuv: the token is pushed on a lock-free stack, and a uv_async_t wakes the loop to pop it.
#include <lab/experiments/hop/workload.hpp>
#include <lab/harness/libuv_loop.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace {

class libuv_loop {
 public:
  struct token : lab::hop::token {
    token* next = nullptr;
  };

  void run() { loop_.run(); }
  void stop() { loop_.stop(); }

  void send(token& passed) {
    passed.next = sent_.load(std::memory_order_relaxed);  // relaxed: checked by the exchange.
    // release: pairs with the exchange in receive(), which reads the token.
    while (!sent_.compare_exchange_weak(passed.next, &passed, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    loop_.notify();
  }

  std::optional<std::uint64_t> wakeups() const { return std::nullopt; }

 private:
  void receive() {
    // acquire: pairs with the release in send().
    token* each = sent_.exchange(nullptr, std::memory_order_acquire);
    while (each != nullptr) std::exchange(each, each->next)->arrive();
  }

  std::atomic<token*> sent_ = nullptr;
  lab::libuv_loop loop_{[this] { receive(); }};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::hop::contender_main<libuv_loop>(argc, argv, {{"libuv", uv_version_string()}});
}
