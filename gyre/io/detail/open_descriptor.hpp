// SPDX-License-Identifier: Apache-2.0
// open_descriptor: the descriptor of a stream or socket, in memory of its own, so that the stream
// can be moved while coroutines wait for it.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>

#include <memory>

namespace gyre::io::detail {

/// Its requests are those of awaiters; closing it completes them.
class open_descriptor : public descriptor, public gyre::detail::slab_object {
 public:
  using descriptor::descriptor;
  ~open_descriptor() { close(); }
  /// Requests under way complete with ECANCELED. Idempotent.
  void close() noexcept;
  /// As close(), but returns the descriptor instead of closing it.
  [[nodiscard]] unique_fd release() noexcept;
};

using owned_descriptor = std::unique_ptr<open_descriptor>;

/// The handle of a descriptor; of null, a handle that no loop serves.
handle& target_of(open_descriptor* descriptor) noexcept;

/// The descriptor; throws std::errc::bad_file_descriptor if it is null or closed.
open_descriptor& opened(const owned_descriptor& descriptor, const char* operation);

}  // namespace gyre::io::detail
