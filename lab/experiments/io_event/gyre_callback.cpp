// SPDX-License-Identifier: Apache-2.0
// gyre: an fd_watch per pair, level-triggered, with a callback. A registration that is renewed is
// paused and resumed, which costs no system call, as with libevent's change list.
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/poller.hpp>
#include <lab/experiments/io_event/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <cstdint>
#include <deque>
#include <span>

namespace {

class gyre_loop {
 public:
  static void probe() { lab::probe_contender_io(); }

  explicit gyre_loop(std::span<lab::io_event::channel> channels) {
    for (lab::io_event::channel& each : channels) {
      watches_.emplace_back(loop_, each.fd(), [&each](gyre::readiness) { each.readable(); });
    }
  }

  void watch(std::uint32_t index) {
    gyre::fd_watch& each = watches_[index];
    each.paused() ? each.resume() : each.start(gyre::readiness::readable);
  }
  void unwatch(std::uint32_t index) { watches_[index].pause(); }

  void run() {
    loop_.restart();
    loop_.run();
  }

  void stop() { loop_.stop(); }

 private:
  gyre::loop loop_{{.io = lab::contender_io}};
  std::deque<gyre::fd_watch> watches_;
};

}  // namespace

int main(int argc, char** argv) { return lab::io_event::contender_main<gyre_loop>(argc, argv); }
