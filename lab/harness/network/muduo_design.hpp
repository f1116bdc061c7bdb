// SPDX-License-Identifier: Apache-2.0
// muduo's design, written afresh from its description: a level-triggered loop on epoll, channels
// with callbacks, a queue of callables that is looked at in every turn, woken by an eventfd.
#pragma once

#include <lab/harness/network/readv_buffer.hpp>
#include <lab/harness/network/socket.hpp>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace lab::network {

class muduo_design_loop;

/// A watched descriptor and its callbacks.
/// Lifetime: the loop must outlive the channel, and stop watching it first.
class muduo_design_channel {
 public:
  muduo_design_channel(muduo_design_loop& loop, int fd) : loop_(loop), fd_(fd) {}

  muduo_design_channel(const muduo_design_channel&) = delete;
  muduo_design_channel& operator=(const muduo_design_channel&) = delete;

  int fd() const { return fd_; }
  void on_readable(std::function<void()> callback) { readable_ = std::move(callback); }
  void on_writable(std::function<void()> callback) { writable_ = std::move(callback); }

  /// Keeps the owner alive during callbacks.
  void tie(const std::shared_ptr<void>& owner) {
    owner_ = owner;
    tied_ = true;
  }

  bool is_writing() const { return (events_ & EPOLLOUT) != 0; }
  void watch_reading(bool enabled) { watch(EPOLLIN, enabled); }
  void watch_writing(bool enabled) { watch(EPOLLOUT, enabled); }

 private:
  friend class muduo_design_loop;

  inline void watch(std::uint32_t event, bool enabled);

  void handle(std::uint32_t ready) {
    std::shared_ptr<void> alive;
    if (tied_) {
      alive = owner_.lock();
      if (!alive) return;
    }
    if ((ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && readable_) readable_();
    if ((ready & EPOLLOUT) != 0 && writable_) writable_();
  }

  muduo_design_loop& loop_;
  int fd_;
  std::uint32_t events_ = 0;
  std::uint32_t ready_ = 0;
  bool tied_ = false;
  std::weak_ptr<void> owner_;
  std::function<void()> readable_;
  std::function<void()> writable_;
};

/// The loop: collects the channels that are ready, then calls them.
/// Thread-safety: post() may be called from any thread, all else on the loop's.
class muduo_design_loop {
 public:
  muduo_design_loop()
      : epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        wakeup_(*this, checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")) {
    wakeup_.on_readable([this] {
      std::uint64_t count;
      static_cast<void>(read(wakeup_.fd(), &count, sizeof count));
    });
    wakeup_.watch_reading(true);
  }

  muduo_design_loop(const muduo_design_loop&) = delete;
  muduo_design_loop& operator=(const muduo_design_loop&) = delete;

  ~muduo_design_loop() {
    close(wakeup_.fd());
    close(epoll_);
  }

  void run() {
    stopped_ = false;
    while (!stopped_) {
      poll();
      for (muduo_design_channel* const each : active_) each->handle(each->ready_);
      run_posted();
    }
  }

  void stop() { stopped_ = true; }

  void post(std::function<void()> callable) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(callable));
    }
    const std::uint64_t one = 1;
    static_cast<void>(write(wakeup_.fd(), &one, sizeof one));
  }

 private:
  friend class muduo_design_channel;

  static constexpr int poll_ms = 10'000;

  void poll() {
    const int ready = epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), poll_ms);
    // A message's callback gets the time of its arrival, so the clock is read once a turn.
    arrival_ = std::chrono::system_clock::now();
    if (ready < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "epoll_wait");
    }
    active_.clear();
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events_[static_cast<std::size_t>(i)];
      auto* const channel = static_cast<muduo_design_channel*>(event.data.ptr);
      channel->ready_ = event.events;
      active_.push_back(channel);
    }
    if (active_.size() == events_.size()) events_.resize(2 * events_.size());
  }

  void run_posted() {
    std::vector<std::function<void()>> ready;
    {
      const std::lock_guard lock(mutex_);
      ready.swap(posted_);
    }
    for (const auto& each : ready) each();
  }

  void update(muduo_design_channel& channel, bool was_watched) const {
    const int action = !was_watched           ? EPOLL_CTL_ADD
                       : channel.events_ == 0 ? EPOLL_CTL_DEL
                                              : EPOLL_CTL_MOD;
    epoll_event wanted{.events = channel.events_, .data = {.ptr = &channel}};
    checked(epoll_ctl(epoll_, action, channel.fd(), &wanted), "epoll_ctl");
  }

  int epoll_;
  bool stopped_ = false;
  std::vector<epoll_event> events_{16};
  std::vector<muduo_design_channel*> active_;
  std::chrono::system_clock::time_point arrival_;
  muduo_design_channel wakeup_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

inline void muduo_design_channel::watch(std::uint32_t event, bool enabled) {
  const std::uint32_t before = events_;
  events_ = enabled ? events_ | event : events_ & ~event;
  if (events_ != before) loop_.update(*this, before != 0);
}

/// muduo's design as a whole.
struct muduo_design {
  using loop = muduo_design_loop;
  using channel = muduo_design_channel;
  using buffer = readv_buffer<vector_memory>;
};

}  // namespace lab::network
