// SPDX-License-Identifier: Apache-2.0
// libevent: persistent events, assigned in place; no locks, and changes of registrations gathered
// until the next wait, so that one that is renewed costs no system call.
#include <lab/experiments/io_event/workload.hpp>
#include <lab/harness/libevent_base.hpp>

#include <event2/event.h>
#include <event2/event_struct.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

class libevent_loop {
 public:
  explicit libevent_loop(std::span<lab::io_event::channel> channels) : events_(channels.size()) {
    for (std::size_t i = 0; i < channels.size(); ++i) {
      const auto call = [](evutil_socket_t, short, void* channel) {
        static_cast<lab::io_event::channel*>(channel)->readable();
      };
      event_assign(&events_[i], base_.get(), channels[i].fd(), EV_READ | EV_PERSIST, call,
                   &channels[i]);
    }
  }

  libevent_loop(const libevent_loop&) = delete;
  libevent_loop& operator=(const libevent_loop&) = delete;

  ~libevent_loop() {
    for (event& each : events_) event_del(&each);
  }

  void watch(std::uint32_t index) { event_add(&events_[index], nullptr); }
  void unwatch(std::uint32_t index) { event_del(&events_[index]); }
  void run() { event_base_dispatch(base_.get()); }
  void stop() { event_base_loopbreak(base_.get()); }

 private:
  lab::libevent_base base_ = lab::make_libevent_base();
  std::vector<event> events_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::io_event::contender_main<libevent_loop>(argc, argv,
                                                      {{"libevent", event_get_version()}});
}
