// SPDX-License-Identifier: Apache-2.0
// What streams and sockets own: a descriptor with a place of its own, so that they can be moved while
// coroutines wait for it, and which leaves no coroutine waiting when it is closed.
#pragma once

#include <gyre/base/slab.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>

#include <cstddef>
#include <memory>

namespace gyre::io::detail {

/// A descriptor in memory from the slab. Requests of it are those of awaiters.
class open_descriptor : public descriptor {
 public:
  using descriptor::descriptor;
  ~open_descriptor() { close(); }

  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    slab_deallocate(memory, bytes);
  }

  /// Closes it; what is under way completes with ECANCELED. Idempotent.
  void close() noexcept;
  /// The same, but gives the descriptor up instead of closing it.
  [[nodiscard]] unique_fd release() noexcept;

 private:
  class requests_under_way;
};

using owned_descriptor = std::unique_ptr<open_descriptor>;

/// The handle that requests of `on` are for: of none, one that no loop serves.
handle& target_of(open_descriptor* on) noexcept;

/// `on`, if there is one and it is open; else throws std::errc::bad_file_descriptor.
open_descriptor& opened(const owned_descriptor& on, const char* what);

}  // namespace gyre::io::detail
