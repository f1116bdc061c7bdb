// SPDX-License-Identifier: Apache-2.0
// readiness_set: standing interests in descriptors (fd_watch), on an epoll instance.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/poller.hpp>

#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gyre::io::detail {

/// Calls epoll_ctl(2). `operation`: EPOLL_CTL_ADD or EPOLL_CTL_MOD. Returns an error number, or 0.
int try_set_events(int epoll, int operation, int fd, std::uint32_t events,
                   std::uint64_t data) noexcept;
/// Does what try_set_events() does. Throws std::system_error.
void set_events(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t data);
/// Ends a registration, and clears its events in `reports`, which the poller has not processed yet.
/// If the descriptor has been closed, the kernel has ended the registration already.
void unregister(int epoll, int fd, std::uint64_t data, std::span<epoll_event> reports) noexcept;

class readiness_set {
 public:
  /// `reports`: the events that the poller has not processed yet. Ending a watch clears its events
  /// there.
  explicit readiness_set(std::span<epoll_event>& reports) noexcept : reports_(reports) {}
  readiness_set& operator=(readiness_set&&) = delete;
  ~readiness_set() { operations_.clear(); }
  /// Opens an instance of epoll. Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  static unique_fd make_epoll();
  /// Uses another epoll instance from now on, and registers every operation with it. Throws
  /// std::system_error.
  void use(int epoll);
  std::size_t size() const noexcept { return count_; }

  // The poller has functions of the same names and parameters, which call these functions.
  void watch(readiness_operation& op, readiness interest, trigger mode);
  void rewatch(readiness_operation& op, readiness interest, trigger mode);
  void unwatch(readiness_operation& op) noexcept;
  /// Calls the callback of the operation that an event is for, or withholds the event if the
  /// operation is paused.
  void report(const epoll_event& event, std::size_t& completions) const;

 private:
  void withhold(readiness_operation& op) const noexcept;
  void control(int operation, readiness_operation& op, readiness interest, trigger mode) const;

  std::span<epoll_event>& reports_;
  int epoll_ = -1;
  intrusive_list<readiness_operation> operations_;
  std::size_t count_ = 0;
};

}  // namespace gyre::io::detail
