// SPDX-License-Identifier: Apache-2.0
// The floor: epoll itself, level-triggered.
#include <lab/experiments/io_event/workload.hpp>

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace {

class epoll_loop {
 public:
  explicit epoll_loop(std::span<lab::io_event::channel> channels)
      : channels_(channels),
        epoll_(lab::network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {}

  epoll_loop(const epoll_loop&) = delete;
  epoll_loop& operator=(const epoll_loop&) = delete;
  ~epoll_loop() { close(epoll_); }

  void watch(std::uint32_t index) {
    epoll_event wanted{.events = EPOLLIN, .data = {.ptr = &channels_[index]}};
    lab::network::checked(epoll_ctl(epoll_, EPOLL_CTL_ADD, channels_[index].fd(), &wanted),
                          "epoll_ctl");
  }

  void unwatch(std::uint32_t index) {
    lab::network::checked(epoll_ctl(epoll_, EPOLL_CTL_DEL, channels_[index].fd(), nullptr),
                          "epoll_ctl");
  }

  void run() {
    std::array<epoll_event, 512> events;
    stopped_ = false;
    while (!stopped_) {
      const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < ready; ++i) {
        static_cast<lab::io_event::channel*>(events[static_cast<std::size_t>(i)].data.ptr)
            ->readable();
      }
    }
  }

  void stop() { stopped_ = true; }

 private:
  std::span<lab::io_event::channel> channels_;
  int epoll_;
  bool stopped_ = false;
};

}  // namespace

int main(int argc, char** argv) { return lab::io_event::contender_main<epoll_loop>(argc, argv); }
