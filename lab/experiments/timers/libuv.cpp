// SPDX-License-Identifier: Apache-2.0
// libuv: an array of uv_timer_t. Its time is in milliseconds, so delays are rounded up.
#include <lab/experiments/timers/workload.hpp>
#include <lab/harness/libuv_loop.hpp>

#include <uv.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace {

class libuv_loop {
 public:
  static constexpr std::chrono::microseconds resolution{1000};

  libuv_loop(std::uint32_t timers, lab::timers::timer_results& done)
      : done_(done), timers_(timers) {
    loop_.get()->data = this;
    uv_idle_init(loop_.get(), &begin_);
    for (timer& each : timers_) uv_timer_init(loop_.get(), &each.handle);
  }

  template <class Begin>
  void run(Begin begin) {
    begin_.data = &begin;
    uv_idle_start(&begin_, [](uv_idle_t* handle) {
      uv_idle_stop(handle);
      (*static_cast<Begin*>(handle->data))();
    });
    loop_.run();
  }

  lab::timers::entry& at(std::uint32_t index) { return timers_[index].entry; }

  void start(std::uint32_t index) {
    timer& started = timers_[index];
    const auto delay = std::chrono::ceil<std::chrono::milliseconds>(started.entry.delay);
    uv_timer_start(&started.handle, &libuv_loop::fire, static_cast<std::uint64_t>(delay.count()),
                   0);
  }

  bool cancel(std::uint32_t index) {
    uv_timer_t& cancelled = timers_[index].handle;
    const bool active = uv_is_active(reinterpret_cast<uv_handle_t*>(&cancelled)) != 0;
    return active && uv_timer_stop(&cancelled) == 0;
  }

 private:
  struct timer {
    uv_timer_t handle;
    lab::timers::entry entry;
  };

  static void fire(uv_timer_t* handle) {
    static_assert(std::is_standard_layout_v<timer> && offsetof(timer, handle) == 0);
    auto& fired = *reinterpret_cast<timer*>(handle);
    static_cast<libuv_loop*>(handle->loop->data)->done_.fire(fired.entry);
  }

  lab::timers::timer_results& done_;
  uv_idle_t begin_;
  std::vector<timer> timers_;
  lab::owned_libuv_loop loop_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::timers::contender_main<libuv_loop>(argc, argv, {{"libuv", uv_version_string()}});
}
