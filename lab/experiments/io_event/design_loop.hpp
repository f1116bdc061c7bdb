// SPDX-License-Identifier: Apache-2.0
// The contenders muduo_design and evpp_design: a channel of one of these designs for each pair.
#pragma once

#include <lab/experiments/io_event/workload.hpp>

#include <cstdint>
#include <deque>
#include <span>

namespace lab::io_event {

template <class Design>
class design_loop {
 public:
  explicit design_loop(std::span<channel> channels) {
    for (channel& each : channels) {
      watched_.emplace_back(loop_, each.fd()).on_readable([&each] { each.readable(); });
    }
  }

  void watch(std::uint32_t index) { watched_[index].watch_reading(true); }
  void unwatch(std::uint32_t index) { watched_[index].watch_reading(false); }
  void run() { loop_.run(); }
  void stop() { loop_.stop(); }

 private:
  Design::loop loop_;
  std::deque<typename Design::channel> watched_;
};

}  // namespace lab::io_event
