// SPDX-License-Identifier: Apache-2.0
// evpp's design as a whole: a loop on libevent with a vector of std::function under a mutex, woken
// through a pair of sockets. The contender `mutex` has a like queue in gyre's loop.
#include <lab/experiments/post_task/workload.hpp>
#include <lab/harness/network/evpp_design.hpp>

#include <event2/event.h>

#include <cstdint>
#include <optional>

namespace {

class evpp_loop {
 public:
  static constexpr bool can_wake_per_task = true;

  explicit evpp_loop(lab::post_task::wakeup when)
      : loop_(when == lab::post_task::wakeup::per_task
                  ? lab::network::evpp_design_wakeup::per_task
                  : lab::network::evpp_design_wakeup::coalesced) {}

  void run() { loop_.run(); }
  void stop() {
    loop_.post([this] { loop_.stop(); });
  }

  template <class F>
  void post(F work) {
    loop_.post(work);
  }

  std::optional<std::uint64_t> wakeups() const { return loop_.wakeups(); }

 private:
  lab::network::evpp_design_loop loop_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::post_task::contender_main<evpp_loop>(argc, argv, {{"libevent", event_get_version()}});
}
