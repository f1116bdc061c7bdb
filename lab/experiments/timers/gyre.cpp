// SPDX-License-Identifier: Apache-2.0
// gyre: timers of the default loop, started by start_at because start_after would read the clock
// each time. A gyre loop runs until it is stopped; this one stops when its last timer is done.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/timer.hpp>
#include <lab/experiments/timers/workload.hpp>

#include <chrono>
#include <cstdint>
#include <deque>

namespace {

class gyre_loop {
 public:
  static constexpr std::chrono::microseconds resolution{0};

  gyre_loop(std::uint32_t timers, lab::timers::timer_results& done) : done_(done) {
    for (std::uint32_t i = 0; i < timers; ++i) timers_.emplace_back(*this);
  }

  template <class Begin>
  void run(Begin begin) {
    loop_.restart();
    loop_.post([this, &begin] {
      now_ = loop_.now();
      begin();
      stop_if_done();
    });
    loop_.run();
  }

  lab::timers::entry& at(std::uint32_t index) { return timers_[index].entry; }

  void start(std::uint32_t index) {
    timer& started = timers_[index];
    started.waiting.start_at(now_ + started.entry.delay);
    ++active_;
  }

  bool cancel(std::uint32_t index) {
    const bool was_active = timers_[index].waiting.cancel();
    active_ -= was_active;
    return was_active;
  }

 private:
  struct timer {
    explicit timer(gyre_loop& on) : waiting(on.loop_, [&on, this] { on.fire(entry); }) {}

    gyre::timer waiting;
    lab::timers::entry entry;
  };

  void fire(lab::timers::entry& fired) {
    done_.fire(fired);
    --active_;
    stop_if_done();
  }

  void stop_if_done() {
    if (active_ == 0) loop_.stop();
  }

  lab::timers::timer_results& done_;
  gyre::steady_time now_;
  std::uint64_t active_ = 0;
  gyre::loop loop_;
  std::deque<timer> timers_;
};

}  // namespace

int main(int argc, char** argv) { return lab::timers::contender_main<gyre_loop>(argc, argv); }
