// SPDX-License-Identifier: Apache-2.0
// evpp's design, written afresh from the reports: a loop on libevent's event_base, of which only
// the core is used, channels with callbacks, and a queue of callables, a vector under a mutex, that
// wakes the loop through a pair of sockets.
#pragma once

#include <lab/harness/libevent_base.hpp>
#include <lab/harness/network/readv_buffer.hpp>
#include <lab/harness/network/socket.hpp>

#include <event2/event.h>
#include <event2/event_struct.h>

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lab::network {

class evpp_design_loop;

/// A watched descriptor and its callbacks: one persistent event. A change of its interests removes
/// the event and adds it again.
/// Lifetime: the loop must outlive the channel.
class evpp_design_channel {
 public:
  inline evpp_design_channel(evpp_design_loop& loop, int fd);

  evpp_design_channel(const evpp_design_channel&) = delete;
  evpp_design_channel& operator=(const evpp_design_channel&) = delete;
  ~evpp_design_channel() {
    if (events_ != 0) event_del(&event_);
  }

  int fd() const { return fd_; }
  void on_readable(std::function<void()> callback) { readable_ = std::move(callback); }
  void on_writable(std::function<void()> callback) { writable_ = std::move(callback); }

  /// Nothing to do: the owner is alive as long as the channel.
  void tie(const std::shared_ptr<void>&) {}

  bool is_writing() const { return (events_ & EV_WRITE) != 0; }
  void watch_reading(bool enabled) { watch(EV_READ, enabled); }
  void watch_writing(bool enabled) { watch(EV_WRITE, enabled); }

 private:
  void watch(short event, bool enabled) {
    const auto wanted = static_cast<short>(enabled ? events_ | event : events_ & ~event);
    if (wanted == events_) return;
    if (events_ != 0) event_del(&event_);
    events_ = wanted;
    if (events_ == 0) return;
    event_assign(&event_, base_, fd_, static_cast<short>(events_ | EV_PERSIST), &handle, this);
    event_add(&event_, nullptr);
  }

  static void handle(evutil_socket_t, short ready, void* self) {
    auto& channel = *static_cast<evpp_design_channel*>(self);
    if ((ready & EV_READ) != 0 && channel.readable_) channel.readable_();
    if ((ready & EV_WRITE) != 0 && channel.writable_) channel.writable_();
  }

  event_base* base_;
  int fd_;
  short events_ = 0;
  event event_{};
  std::function<void()> readable_;
  std::function<void()> writable_;
};

/// The wake-ups by post(): one for all that the loop has not begun to run, as in later versions, or
/// one each, as in evpp 0.3.1, the version of the report on queues.
enum class evpp_design_wakeup { coalesced, per_task };

/// The loop.
/// Thread-safety: post() and wakeups() may be called from any thread, all else on the loop's.
class evpp_design_loop {
 public:
  explicit evpp_design_loop(evpp_design_wakeup wakeup = evpp_design_wakeup::coalesced)
      : wakeup_(wakeup), sockets_(make_pair()), watcher_(*this, sockets_[0]) {
    watcher_.on_readable([this] {
      std::array<std::byte, 128> ignored;
      static_cast<void>(recv(sockets_[0], ignored.data(), ignored.size(), 0));
      run_posted();
    });
    watcher_.watch_reading(true);
  }

  evpp_design_loop(const evpp_design_loop&) = delete;
  evpp_design_loop& operator=(const evpp_design_loop&) = delete;

  ~evpp_design_loop() {
    close(sockets_[0]);
    close(sockets_[1]);
  }

  event_base* base() const { return base_.get(); }

  void run() { event_base_dispatch(base_.get()); }
  void stop() { event_base_loopbreak(base_.get()); }

  void post(std::function<void()> callable) {
    {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(callable));
    }
    if (wakeup_ == evpp_design_wakeup::coalesced && notified_.exchange(true)) return;
    // relaxed: a count for the report.
    wakeups_.fetch_add(1, std::memory_order_relaxed);
    const std::byte woken{};
    static_cast<void>(send(sockets_[1], &woken, 1, MSG_NOSIGNAL));
  }

  std::uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }

 private:
  static std::array<int, 2> make_pair() {
    std::array<int, 2> ends{};
    checked(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()),
            "socketpair");
    return ends;
  }

  void run_posted() {
    std::vector<std::function<void()>> ready;
    {
      const std::lock_guard lock(mutex_);
      notified_.store(false);
      ready.swap(posted_);
    }
    for (const auto& each : ready) each();
  }

  libevent_base base_ = make_libevent_base(EVENT_BASE_FLAG_NOLOCK);
  evpp_design_wakeup wakeup_;
  std::array<int, 2> sockets_;
  evpp_design_channel watcher_;
  std::atomic<std::uint64_t> wakeups_ = 0;
  std::atomic<bool> notified_ = false;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

inline evpp_design_channel::evpp_design_channel(evpp_design_loop& loop, int fd)
    : base_(loop.base()), fd_(fd) {}

/// evpp's design as a whole.
struct evpp_design {
  using loop = evpp_design_loop;
  using channel = evpp_design_channel;
  using buffer = readv_buffer<array_memory>;
};

}  // namespace lab::network
