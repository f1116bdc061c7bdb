// SPDX-License-Identifier: Apache-2.0
// gyre: an fd_watch and a timer per end, with callbacks.
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/poller.hpp>
#include <gyre/exec/timer.hpp>
#include <lab/experiments/timeout/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <sys/socket.h>

#include <cstddef>
#include <deque>

namespace {

class gyre_loop {
 public:
  static void probe() { lab::probe_contender_io(); }

  explicit gyre_loop(lab::timeout::readers& ends) : running_(ends.size()) {
    for (lab::timeout::reader& each : ends) ends_.emplace_back(*this, each);
  }

  void run() {
    loop_.post([this] {
      for (end& each : ends_) each.begin();
    });
    loop_.run();
  }

 private:
  struct end {
    end(gyre_loop& on, lab::timeout::reader& its)
        : loop(on),
          reader(its),
          watch(on.loop_, its.fd(), [this](gyre::readiness) { read(); }),
          limit(on.loop_, [this] {
            reader.timed_out();
            next();
          }) {}

    void begin() {
      watch.start(gyre::readiness::readable);
      next();
    }
    void next() {
      if (reader.next()) return limit.start_after(reader.limit());
      watch.stop();
      if (--loop.running_ == 0) loop.loop_.stop();
    }
    void read() {
      std::byte byte{};
      if (::recv(reader.fd(), &byte, 1, 0) != 1) return;
      limit.cancel();
      reader.received(byte);
      next();
    }

    gyre_loop& loop;
    lab::timeout::reader& reader;
    gyre::fd_watch watch;
    gyre::timer limit;
  };

  gyre::loop loop_{{.io = lab::contender_io}};
  std::deque<end> ends_;
  std::size_t running_;
};

}  // namespace

int main(int argc, char** argv) { return lab::timeout::contender_main<gyre_loop>(argc, argv); }
