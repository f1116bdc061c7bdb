// SPDX-License-Identifier: Apache-2.0
// open_descriptor: the descriptor of a stream or socket for coroutines.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/task/executor.hpp>

#include <memory>
#include <system_error>

namespace gyre::io::detail {

/// The descriptor of a stream or socket, allocated separately, so that the stream can be moved
/// while coroutines wait for it. Its requests belong to awaiters; closing the descriptor completes
/// them.
class open_descriptor : public descriptor, public gyre::detail::slab_object {
 public:
  using descriptor::descriptor;
  ~open_descriptor() { close(); }
  /// Closes the descriptor. Requests under way complete with errc::closed. Idempotent.
  void close() noexcept;
  /// Does what close() does, but returns the descriptor instead of closing it.
  [[nodiscard]] unique_fd release() noexcept;
};

using owned_descriptor = std::unique_ptr<open_descriptor>;

/// Returns the handle of a descriptor; for null, a handle that no loop serves.
handle& target_of(open_descriptor* descriptor) noexcept;
/// Returns the descriptor of a handle; for a handle that no loop serves, null.
inline open_descriptor* descriptor_of(handle& target) noexcept {
  if (target.fd() < 0) return nullptr;
  return &static_cast<open_descriptor&>(descriptor::of(target));
}

/// Returns the descriptor; throws errc::not_open if it is null or closed.
open_descriptor& opened(const owned_descriptor& descriptor, const char* operation);

/// Returns the error of the exception being handled.
[[gnu::cold]] std::error_code current_error() noexcept;
/// Returns whether a coroutine whose executor is not the loop is known to run on the loop's thread
/// nevertheless.
[[gnu::cold]] bool may_use(const event_loop& loop, const executor& executor) noexcept;

}  // namespace gyre::io::detail
