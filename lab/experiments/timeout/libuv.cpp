// SPDX-License-Identifier: Apache-2.0
// libuv: a uv_poll_t, which is cheaper here than a stream, and a uv_timer_t per end.
#include <lab/experiments/timeout/workload.hpp>
#include <lab/harness/libuv_loop.hpp>

#include <uv.h>

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <deque>

namespace {

class libuv_loop {
 public:
  explicit libuv_loop(lab::timeout::readers& ends) {
    for (lab::timeout::reader& each : ends) ends_.emplace_back(*loop_.get(), each);
  }

  void run() {
    for (end& each : ends_) {
      uv_poll_start(&each.poll, UV_READABLE, &end::on_readable);
      each.next();
    }
    loop_.run();
  }

 private:
  struct end {
    end(uv_loop_t& loop, lab::timeout::reader& its) : reader(its) {
      uv_poll_init(&loop, &poll, its.fd());
      uv_timer_init(&loop, &limit);
      poll.data = this;
      limit.data = this;
    }

    void next() {
      if (reader.next()) {
        uv_timer_start(&limit, &on_limit, static_cast<std::uint64_t>(reader.limit().count()), 0);
      } else {
        uv_poll_stop(&poll);
        uv_timer_stop(&limit);
      }
    }
    static void on_limit(uv_timer_t* expired) {
      end& self = *static_cast<end*>(expired->data);
      self.reader.timed_out();
      self.next();
    }
    static void on_readable(uv_poll_t* readable, int, int) {
      end& self = *static_cast<end*>(readable->data);
      std::byte byte{};
      if (::recv(self.reader.fd(), &byte, 1, 0) != 1) return;
      self.reader.received(byte);
      self.next();
    }

    lab::timeout::reader& reader;
    uv_poll_t poll{};
    uv_timer_t limit{};
  };

  std::deque<end> ends_;
  lab::owned_libuv_loop loop_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timeout::contender_main<libuv_loop>(argc, argv, {{"libuv", uv_version_string()}});
}
