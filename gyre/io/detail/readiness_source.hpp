// SPDX-License-Identifier: Apache-2.0
// readiness_source: how ready_requests has the kernel watch handles. Calls go from ready_requests
// to its source only; the poller passes on what the source reports.
#pragma once

#include <cstddef>
#include <utility>

#include <gyre/io/request.hpp>

namespace gyre::io::detail {

class readiness_source {
 public:
  readiness_source() = default;
  readiness_source(const readiness_source&) = delete;
  readiness_source& operator=(const readiness_source&) = delete;

  /// Begins to watch a handle, whose index is set. Throws.
  virtual void add(handle& watched) = 0;
  /// Ends that; nothing refers to the handle any more.
  virtual void remove(handle& watched) noexcept = 0;
  /// A request has to wait until its handle is reported as ready.
  virtual void wait_for(handle& waiting, direction way) noexcept = 0;
  /// Carries out a request that reads, for a handle with handle_flag::kernel_receives; EAGAIN when
  /// nothing came.
  virtual result read_early(request& reader) noexcept = 0;

  /// Notes how many bytes the last call that received brought.
  void note_receive(std::size_t bytes) noexcept { last_receive_ = bytes; }

 protected:
  ~readiness_source() = default;
  /// The same number, once; 0 from then on.
  std::size_t take_last_receive() noexcept { return std::exchange(last_receive_, 0); }

 private:
  std::size_t last_receive_ = 0;
};

}  // namespace gyre::io::detail
