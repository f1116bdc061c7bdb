// SPDX-License-Identifier: Apache-2.0
// libevent: events assigned once, in place, so that nothing is allocated for them. Its precise
// clock costs nothing here, since within a callback the cached time is used; the other one is
// milliseconds coarse. Timers of a minute, which are many, have a queue of their own instead of the
// heap (event_base_init_common_timeout).
#include <lab/experiments/timers/workload.hpp>
#include <lab/harness/libevent_base.hpp>

#include <event2/event.h>
#include <event2/event_struct.h>

#include <chrono>
#include <cstdint>
#include <new>
#include <vector>

namespace {

class libevent_loop {
 public:
  static constexpr std::chrono::microseconds resolution{1};

  libevent_loop(std::uint32_t timers, lab::timers::timer_results& done) : timers_(timers) {
    for (timer& each : timers_) {
      each.done = &done;
      evtimer_assign(&each.event, base_.get(), &timer::fire, &each);
    }
  }

  template <class Begin>
  void run(Begin begin) {
    const auto call = [](evutil_socket_t, short, void* argument) {
      (*static_cast<Begin*>(argument))();
    };
    if (event_base_once(base_.get(), -1, EV_TIMEOUT, call, &begin, nullptr) != 0) {
      throw std::bad_alloc();
    }
    event_base_dispatch(base_.get());
  }

  lab::timers::entry& at(std::uint32_t index) { return timers_[index].entry; }

  void start(std::uint32_t index) {
    timer& started = timers_[index];
    const std::uint32_t microseconds = started.entry.delay.count();
    if (microseconds == minute_in_microseconds) {
      evtimer_add(&started.event, minute_);
      return;
    }
    const timeval delay{.tv_sec = microseconds / 1'000'000, .tv_usec = microseconds % 1'000'000};
    evtimer_add(&started.event, &delay);
  }

  bool cancel(std::uint32_t index) {
    event& cancelled = timers_[index].event;
    return evtimer_pending(&cancelled, nullptr) != 0 && evtimer_del(&cancelled) == 0;
  }

 private:
  static constexpr std::uint32_t minute_in_microseconds = 60'000'000;

  struct timer {
    ::event event;
    lab::timers::entry entry;
    lab::timers::timer_results* done;

    static void fire(evutil_socket_t, short, void* self) {
      auto& fired = *static_cast<timer*>(self);
      fired.done->fire(fired.entry);
    }
  };

  lab::libevent_base base_ =
      lab::make_libevent_base(lab::libevent_flags | EVENT_BASE_FLAG_PRECISE_TIMER);
  const timeval* minute_ = [this] {
    const timeval minute{.tv_sec = 60, .tv_usec = 0};
    return event_base_init_common_timeout(base_.get(), &minute);
  }();
  std::vector<timer> timers_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timers::contender_main<libevent_loop>(argc, argv,
                                                    {{"libevent", event_get_version()}});
}
