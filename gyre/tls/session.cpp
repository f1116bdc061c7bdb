// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/session.hpp>

#include <gyre/tls/detail/openssl.hpp>

#include <openssl/err.h>

namespace gyre::tls {

std::vector<std::byte> session::save() const {
  if (native_ == nullptr) return {};
  auto* const native_session = static_cast<SSL_SESSION*>(native_.get());
  const int size = i2d_SSL_SESSION(native_session, nullptr);
  if (size <= 0) return {};
  std::vector<std::byte> result(static_cast<std::size_t>(size));
  auto* target = reinterpret_cast<unsigned char*>(result.data());
  i2d_SSL_SESSION(native_session, &target);
  return result;
}

session session::load(std::span<const std::byte> saved_session) {
  const auto* position = reinterpret_cast<const unsigned char*>(saved_session.data());
  detail::ssl_session_ptr native_session(
      d2i_SSL_SESSION(nullptr, &position, static_cast<long>(saved_session.size())));
  ERR_clear_error();
  if (native_session == nullptr) return {};
  return session(std::shared_ptr<SSL_SESSION>(std::move(native_session)));
}

}  // namespace gyre::tls
