// SPDX-License-Identifier: Apache-2.0
// Standing interests in descriptors (fd_watch), on an epoll instance.
#pragma once

#include <sys/epoll.h>

#include <cstddef>
#include <span>

#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/poller.hpp>

namespace gyre::io::detail {

class readiness_set {
 public:
  /// `reported`: what the poller has still to look at; events of what is unwatched are emptied there.
  explicit readiness_set(std::span<epoll_event>& reported) noexcept : reported_(reported) {}
  readiness_set(const readiness_set&) = delete;
  readiness_set& operator=(const readiness_set&) = delete;
  ~readiness_set() { watched_.clear(); }

  /// Throws std::system_error (EMFILE, ENFILE, ENOMEM).
  static unique_fd make_epoll();
  /// The epoll instance to use from now on; every operation is registered with it. Throws
  /// std::system_error.
  void use(int epoll);
  std::size_t size() const noexcept { return count_; }

  // As poller's.
  void watch(readiness_operation& op, readiness interest, trigger how);
  void rewatch(readiness_operation& op, readiness interest, trigger how);
  void unwatch(readiness_operation& op) noexcept;
  /// Reports an event of an operation.
  static void report(const epoll_event& event, std::size_t& completed);

 private:
  void control(int request, readiness_operation& op, readiness interest, trigger how) const;

  std::span<epoll_event>& reported_;
  int epoll_ = -1;
  intrusive_list<readiness_operation> watched_;
  std::size_t count_ = 0;
};

}  // namespace gyre::io::detail
