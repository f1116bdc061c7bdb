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

/// A handle of a session that cannot change; copies share it. Offer it to the same server only: a
/// resumed session is not verified again. With another context than its own, or when that was
/// reloaded, it is not offered. load() cannot know the context: give the same one then.
///
/// Thread-safety: any thread.
class session {
 public:
  /// Constructs an object without a session, which leads to a full handshake.
  session() noexcept = default;
  explicit operator bool() const noexcept { return native_ != nullptr; }

  /// Returns the session as bytes, with its secrets, to be kept elsewhere. Throws std::bad_alloc.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// Returns the session that save() has returned as bytes; an empty session if the bytes are not
  /// one.
  [[nodiscard]] static session load(std::span<const std::byte> saved_session);

  /// The functions below are for gyre's own rooms: OpenSSL's SSL_SESSION, and the rules under which
  /// it was made, if they are known.
  explicit session(std::shared_ptr<void> native_session,
                   std::weak_ptr<const void> rules = {}) noexcept
      : native_(std::move(native_session)), rules_(std::move(rules)) {}
  void* native() const noexcept { return native_.get(); }
  /// Whether a client with these rules may resume the session: one of its own context, or of any.
  bool may_be_offered(const std::weak_ptr<const void>& rules) const noexcept {
    return native_ != nullptr && (is_same(rules_, {}) || is_same(rules_, rules));
  }

 private:
  static bool is_same(const std::weak_ptr<const void>& one,
                      const std::weak_ptr<const void>& other) noexcept {
    return !one.owner_before(other) && !other.owner_before(one);
  }

  std::shared_ptr<void> native_;
  std::weak_ptr<const void> rules_;
};

}  // namespace gyre::tls
