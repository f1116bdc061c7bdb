// SPDX-License-Identifier: Apache-2.0
// libuv: a uv_poll_t per pair.
#include <lab/experiments/io_event/workload.hpp>

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <vector>

namespace {

class libuv_loop {
 public:
  explicit libuv_loop(std::span<lab::io_event::channel> channels) : polls_(channels.size()) {
    check(uv_loop_init(&loop_));
    for (std::size_t i = 0; i < channels.size(); ++i) {
      check(uv_poll_init(&loop_, &polls_[i], channels[i].fd()));
      polls_[i].data = &channels[i];
    }
  }

  libuv_loop(const libuv_loop&) = delete;
  libuv_loop& operator=(const libuv_loop&) = delete;

  ~libuv_loop() {
    for (uv_poll_t& each : polls_) uv_close(reinterpret_cast<uv_handle_t*>(&each), nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  void watch(std::uint32_t index) {
    check(uv_poll_start(&polls_[index], UV_READABLE, [](uv_poll_t* of, int, int) {
      static_cast<lab::io_event::channel*>(of->data)->readable();
    }));
  }

  void unwatch(std::uint32_t index) { check(uv_poll_stop(&polls_[index])); }
  void run() { uv_run(&loop_, UV_RUN_DEFAULT); }
  void stop() { uv_stop(&loop_); }

 private:
  static void check(int status) {
    if (status < 0) throw std::system_error(-status, std::generic_category(), "libuv");
  }

  uv_loop_t loop_;
  std::vector<uv_poll_t> polls_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::io_event::contender_main<libuv_loop>(argc, argv, {{"libuv", uv_version_string()}});
}
