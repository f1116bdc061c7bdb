// SPDX-License-Identifier: Apache-2.0
// session: a client's session with a server, which a later connection resumes without a full
// handshake.
//
//     gyre::tls::session kept = first.session();
//     auto second = co_await gyre::tls::connect(server, context, kept);
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gyre::tls {

/// A handle of a session that cannot change; copies share it. Offer it to the same server only, and
/// with the rules (context) under which it was made: a resumed session is not verified again.
///
/// Thread-safety: any thread.
class session {
 public:
  /// None: a full handshake.
  session() noexcept = default;
  explicit operator bool() const noexcept { return native_ != nullptr; }

  /// The session as bytes, with its secrets, to be kept elsewhere. Throws std::bad_alloc.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// The session that save() gave; none if the bytes are no session.
  [[nodiscard]] static session load(std::span<const std::byte> saved);

  /// For gyre's own rooms: OpenSSL's SSL_SESSION.
  explicit session(std::shared_ptr<void> native) noexcept : native_(std::move(native)) {}
  void* native() const noexcept { return native_.get(); }

 private:
  std::shared_ptr<void> native_;
};

}  // namespace gyre::tls
