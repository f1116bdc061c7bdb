// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/tls_context.hpp>

#include <gyre/tls/detail/context_state.hpp>
#include <gyre/tls/error.hpp>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

namespace gyre::tls {
namespace {

detail::context_state& state_of(const std::shared_ptr<detail::context_state>& state) {
  if (state == nullptr) {
    throw std::system_error(errc::bad_configuration, "gyre::tls::tls_context: empty");
  }
  return *state;
}

}  // namespace

std::string pem::read() const {
  if (!is_file_) return content_;
  errno = 0;
  std::ifstream file(content_, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                            "gyre::tls: " + content_);
  }
  return text;
}

tls_context tls_context::server(server_options options) {
  return tls_context(std::make_shared<detail::context_state>(std::move(options)));
}
tls_context tls_context::client(client_options options) {
  return tls_context(std::make_shared<detail::context_state>(std::move(options)));
}
const tls_context& tls_context::default_client() {
  static const tls_context only = client();
  return only;
}

bool tls_context::is_server() const noexcept { return state_ != nullptr && state_->is_server(); }
std::chrono::nanoseconds tls_context::handshake_timeout() const noexcept {
  return state_ == nullptr ? duration::zero() : state_->current()->handshake_timeout;
}

void tls_context::reload() const { state_of(state_).reload(); }
void tls_context::reload(server_options options) const {
  state_of(state_).reload(std::move(options));
}
void tls_context::reload(client_options options) const {
  state_of(state_).reload(std::move(options));
}

}  // namespace gyre::tls
