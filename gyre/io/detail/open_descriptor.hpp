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

/// The descriptor of a stream or socket, in memory of its own, so that the stream can be moved
/// while coroutines wait for it. Its requests are those of awaiters; closing it completes them.
class open_descriptor : public descriptor, public gyre::detail::slab_object {
 public:
  using descriptor::descriptor;
  ~open_descriptor() { close(); }
  /// Requests under way complete with errc::closed. Idempotent.
  void close() noexcept;
  /// As close(), but returns the descriptor instead of closing it.
  [[nodiscard]] unique_fd release() noexcept;
};

using owned_descriptor = std::unique_ptr<open_descriptor>;

/// The handle of a descriptor; for null, a handle that no loop serves.
handle& target_of(open_descriptor* descriptor) noexcept;
/// The descriptor of a handle; for a handle that no loop serves, null.
inline open_descriptor* descriptor_of(handle& target) noexcept {
  if (target.fd() < 0) return nullptr;
  return &static_cast<open_descriptor&>(descriptor::of(target));
}

/// The descriptor; throws errc::not_open if it is null or closed.
open_descriptor& opened(const owned_descriptor& descriptor, const char* operation);

/// The error of the exception being handled.
[[gnu::cold]] std::error_code current_error() noexcept;
/// Whether a coroutine of another executor than the loop is on the loop's thread all the same, as
/// far as is known.
[[gnu::cold]] bool may_use(const event_loop& loop, const executor& executor) noexcept;

}  // namespace gyre::io::detail
