// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/session.hpp>

#include <gyre/tls/detail/openssl.hpp>

#include <openssl/err.h>

namespace gyre::tls {

std::vector<std::byte> session::save() const {
  if (native_ == nullptr) return {};
  auto* const native = static_cast<SSL_SESSION*>(native_.get());
  const int size = i2d_SSL_SESSION(native, nullptr);
  if (size <= 0) return {};
  std::vector<std::byte> saved(static_cast<std::size_t>(size));
  auto* target = reinterpret_cast<unsigned char*>(saved.data());
  i2d_SSL_SESSION(native, &target);
  return saved;
}

session session::load(std::span<const std::byte> saved_session) {
  const auto* position = reinterpret_cast<const unsigned char*>(saved_session.data());
  detail::ssl_session_ptr native(
      d2i_SSL_SESSION(nullptr, &position, static_cast<long>(saved_session.size())));
  ERR_clear_error();
  if (native == nullptr) return {};
  return session(std::shared_ptr<SSL_SESSION>(std::move(native)));
}

}  // namespace gyre::tls
