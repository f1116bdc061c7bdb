// SPDX-License-Identifier: Apache-2.0
// evpp: an FdChannel per pair, evpp's fastest watcher. A stopped evpp::EventLoop cannot be run
// again, so the libevent loop inside it is run and stopped instead.
#include <lab/experiments/io_event/workload.hpp>

#include <event2/event.h>
#include <evpp/event_loop.h>
#include <evpp/fd_channel.h>

#include <cstdint>
#include <deque>
#include <span>

namespace {

class evpp_loop {
 public:
  explicit evpp_loop(std::span<lab::io_event::channel> channels) {
    for (lab::io_event::channel& each : channels) {
      evpp::FdChannel& watcher = channels_.emplace_back(&loop_, each.fd(), false, false);
      watcher.SetReadCallback([&each] { each.readable(); });
    }
  }

  evpp_loop(const evpp_loop&) = delete;
  evpp_loop& operator=(const evpp_loop&) = delete;

  ~evpp_loop() {
    for (evpp::FdChannel& each : channels_) {
      each.DisableAllEvent();
      each.Close();
    }
  }

  void watch(std::uint32_t index) { channels_[index].EnableReadEvent(); }
  void unwatch(std::uint32_t index) { channels_[index].DisableReadEvent(); }
  void run() { event_base_dispatch(loop_.event_base()); }
  void stop() { event_base_loopbreak(loop_.event_base()); }

 private:
  evpp::EventLoop loop_;
  std::deque<evpp::FdChannel> channels_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::io_event::contender_main<evpp_loop>(argc, argv, {{"evpp", "0.7"}});
}
