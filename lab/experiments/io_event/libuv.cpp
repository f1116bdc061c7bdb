// SPDX-License-Identifier: Apache-2.0
// libuv: a uv_poll_t per pair.
#include <lab/experiments/io_event/workload.hpp>
#include <lab/harness/libuv_loop.hpp>

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

class libuv_loop {
 public:
  explicit libuv_loop(std::span<lab::io_event::channel> channels) : polls_(channels.size()) {
    for (std::size_t i = 0; i < channels.size(); ++i) {
      lab::owned_libuv_loop::check(uv_poll_init(loop_.get(), &polls_[i], channels[i].fd()));
      polls_[i].data = &channels[i];
    }
  }

  void watch(std::uint32_t index) {
    lab::owned_libuv_loop::check(
        uv_poll_start(&polls_[index], UV_READABLE, [](uv_poll_t* of, int, int) {
          static_cast<lab::io_event::channel*>(of->data)->readable();
        }));
  }

  void unwatch(std::uint32_t index) { lab::owned_libuv_loop::check(uv_poll_stop(&polls_[index])); }
  void run() { loop_.run(); }
  void stop() { uv_stop(loop_.get()); }

 private:
  std::vector<uv_poll_t> polls_;
  lab::owned_libuv_loop loop_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::io_event::contender_main<libuv_loop>(argc, argv, {{"libuv", uv_version_string()}});
}
