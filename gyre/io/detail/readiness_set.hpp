// SPDX-License-Identifier: Apache-2.0
// readiness_set: standing interests in descriptors (fd_watch), on an epoll instance.
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/poller.hpp>

#include <sys/epoll.h>

#include <cstddef>
#include <span>

namespace gyre::io::detail {

class readiness_set {
 public:
  /// `reported`: events that the poller has still to look at; those of ended watches are emptied.
  explicit readiness_set(std::span<epoll_event>& reported) noexcept : reported_(reported) {}
  readiness_set& operator=(readiness_set&&) = delete;
  ~readiness_set() { watched_.clear(); }
  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  static unique_fd make_epoll();
  /// Uses another epoll instance from now on, and registers every operation with it. Throws
  /// std::system_error.
  void use(int epoll);
  std::size_t size() const noexcept { return count_; }

  // As the poller's.
  void watch(readiness_operation& op, readiness interest, trigger mode);
  void rewatch(readiness_operation& op, readiness interest, trigger mode);
  void unwatch(readiness_operation& op) noexcept;
  /// Calls the callback of the operation that an event is for, or withholds the event if the
  /// operation is paused.
  void report(const epoll_event& event, std::size_t& completed) const;

 private:
  void withhold(readiness_operation& op) const noexcept;
  void control(int operation, readiness_operation& op, readiness interest, trigger mode) const;

  std::span<epoll_event>& reported_;
  int epoll_ = -1;
  intrusive_list<readiness_operation> watched_;
  std::size_t count_ = 0;
};

}  // namespace gyre::io::detail
