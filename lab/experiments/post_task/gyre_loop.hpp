// SPDX-License-Identifier: Apache-2.0
// gyre's loop with a given inbox, as a contender of post_task.
#pragma once

#include <gyre/exec/loop.hpp>
#include <lab/experiments/post_task/workload.hpp>

#include <cstdint>
#include <optional>

namespace lab::post_task {

template <class Inbox>
class gyre_loop {
 public:
  static constexpr bool can_wake_per_task = true;

  explicit gyre_loop(wakeup when) : loop_(options(when)) {}

  void run() { loop_.run(); }
  void stop() { loop_.stop(); }

  template <class F>
  void post(F work) {
    loop_.post(work);
  }

  std::optional<std::uint64_t> wakeups() const { return loop_.metrics().wakeups; }

 private:
  static gyre::loop_options options(wakeup when) {
    gyre::loop_options chosen;
    if (when == wakeup::per_task) chosen.wakeup = gyre::wakeup::per_task;
    return chosen;
  }

  gyre::basic_loop<Inbox> loop_;
};

}  // namespace lab::post_task
