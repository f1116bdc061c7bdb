// SPDX-License-Identifier: Apache-2.0
// libevent: persistent events, assigned in place; no locks.
#include <lab/experiments/io_event/workload.hpp>

#include <event2/event.h>
#include <event2/event_struct.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
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
  static event_base* make_base() {
    const std::unique_ptr<event_config, decltype(&event_config_free)> config(event_config_new(),
                                                                             &event_config_free);
    if (!config) throw std::bad_alloc();
    event_config_set_flag(config.get(), EVENT_BASE_FLAG_NOLOCK);
    event_base* base = event_base_new_with_config(config.get());
    if (base == nullptr) throw std::bad_alloc();
    return base;
  }

  std::unique_ptr<event_base, decltype(&event_base_free)> base_{make_base(), &event_base_free};
  std::vector<event> events_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::io_event::contender_main<libevent_loop>(argc, argv,
                                                      {{"libevent", event_get_version()}});
}
