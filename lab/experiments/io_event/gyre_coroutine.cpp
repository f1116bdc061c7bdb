// SPDX-License-Identifier: Apache-2.0
// gyre: a coroutine per pair, which reads. The pairs are known to pass no descriptors, so a read
// that does not fill the buffer has emptied the socket.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <lab/experiments/io_event/workload.hpp>
#include <lab/harness/gyre_io.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace {

gyre::task<> serve(std::shared_ptr<gyre::io::stream> pair, lab::io_event::channel& notified) {
  std::array<std::byte, 1> room;  // as all contenders, and the published programs
  for (;;) {
    const auto read = co_await gyre::as_expected(pair->read_some(room));
    if (!read) co_return;  // the pair is no longer watched
    if (*read == 1) notified.taken();
  }
}

class gyre_loop {
 public:
  static void probe() { lab::probe_contender_io(); }

  explicit gyre_loop(std::span<lab::io_event::channel> channels)
      : channels_(channels), pairs_(channels.size()) {}
  gyre_loop(const gyre_loop&) = delete;
  gyre_loop& operator=(const gyre_loop&) = delete;
  ~gyre_loop() {
    for (std::uint32_t i = 0; i < pairs_.size(); ++i) unwatch(i);
    loop_.restart();
    while (loop_.poll()) {
    }
  }

  void watch(std::uint32_t index) {
    lab::io_event::channel& watched = channels_[index];
    pairs_[index] = std::make_shared<gyre::io::stream>(loop_, gyre::unique_fd(watched.fd()),
                                                       gyre::io::handle_kind::stream_socket);
    gyre::spawn(loop_, serve(pairs_[index], watched));
  }
  void unwatch(std::uint32_t index) {
    if (pairs_[index] == nullptr) return;
    static_cast<void>(pairs_[index]->release().release());  // socket_pairs closes it
    pairs_[index] = nullptr;
  }

  void run() {
    loop_.restart();
    loop_.run();
  }

  void stop() { loop_.stop(); }

 private:
  std::span<lab::io_event::channel> channels_;
  gyre::loop loop_{{.io = lab::contender_io}};
  std::vector<std::shared_ptr<gyre::io::stream>> pairs_;
};

}  // namespace

int main(int argc, char** argv) { return lab::io_event::contender_main<gyre_loop>(argc, argv); }
