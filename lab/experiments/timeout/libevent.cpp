// SPDX-License-Identifier: Apache-2.0
// libevent: a persistent event per end with a timeout, which begins anew with each call, by the
// precise clock.
#include <lab/experiments/timeout/workload.hpp>
#include <lab/harness/libevent_base.hpp>

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <deque>

namespace {

class libevent_loop {
 public:
  explicit libevent_loop(lab::timeout::readers& ends) {
    for (lab::timeout::reader& each : ends) {
      end& added = ends_.emplace_back(each);
      event_assign(&added.event, base_.get(), each.fd(), EV_READ | EV_PERSIST, &end::call, &added);
    }
  }

  void run() {
    for (end& each : ends_) {
      const auto limit = std::chrono::microseconds(each.reader.limit()).count();
      const timeval duration{.tv_sec = limit / 1'000'000, .tv_usec = limit % 1'000'000};
      event_add(&each.event, &duration);
      each.next();
    }
    event_base_dispatch(base_.get());
  }

 private:
  struct end {
    explicit end(lab::timeout::reader& its) : reader(its) {}

    void next() {
      if (!reader.next()) event_del(&event);
    }
    static void call(evutil_socket_t fd, short what, void* self) {
      end& called = *static_cast<end*>(self);
      std::byte byte{};
      if ((what & EV_READ) == 0) {
        called.reader.timed_out();
      } else if (::recv(fd, &byte, 1, 0) == 1) {
        called.reader.received(byte);
      } else {
        return;
      }
      called.next();
    }

    lab::timeout::reader& reader;
    ::event event{};
  };

  lab::libevent_base base_ =
      lab::make_libevent_base(lab::libevent_flags | EVENT_BASE_FLAG_PRECISE_TIMER);
  std::deque<end> ends_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<libevent_loop>(argc, argv,
                                                     {{"libevent", event_get_version()}});
}
